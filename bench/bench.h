/* SPDX-License-Identifier: MIT
**
** bench.h -- the benchmarks: bench.c calls one by name.  Each makes its own
** directory below options->data, and removes it.
*/
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "harness.h"

void bench_memory(const struct options *options);
void bench_rows(const struct options *options);
void bench_disk(const struct options *options);
void bench_skew(const struct options *options);
void bench_put(const struct options *options);
void bench_clock(const struct options *options);
void bench_update(const struct options *options);
void bench_online(const struct options *options);
void bench_warm(const struct options *options);
void bench_processes(const struct options *options);
void bench_export(const struct options *options);
void bench_growth(const struct options *options);
void bench_load(const struct options *options);
void bench_lookahead(const struct options *options);
void bench_bound(const struct options *options);
void bench_nearest(const struct options *options);
void bench_steady(const struct options *options);
void bench_sample(const struct options *options);
void bench_samples(const struct options *options);
void bench_text(const struct options *options);
void bench_average(const struct options *options);
void bench_guard(const struct options *options);
void bench_choose(const struct options *options);
void bench_bag(const struct options *options);
void bench_wordnet(const struct options *options);

#endif
