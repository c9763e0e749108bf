#include "bench.h"
void bench_growth(const struct options *o) { (void)o; }
