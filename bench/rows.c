#include "bench.h"
void bench_rows(const struct options *o) { (void)o; }
