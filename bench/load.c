#include "bench.h"
void bench_load(const struct options *o) { (void)o; }
