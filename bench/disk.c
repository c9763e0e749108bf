#include "bench.h"
void bench_disk(const struct options *o) { (void)o; }
