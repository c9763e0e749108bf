#include "bench.h"
void bench_put(const struct options *o) { (void)o; }
