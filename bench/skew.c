#include "bench.h"
void bench_skew(const struct options *o) { (void)o; }
