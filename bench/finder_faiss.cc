// SPDX-License-Identifier: MIT
//
// finder_faiss.cc -- FAISS as Debian builds it (for any amd64, so without AVX,
// but with OpenBLAS, which chooses for itself): flat, an inverted file of flat
// lists, and a graph (HNSW, 32 neighbours, its own default of 40 for building).
//
// The graph takes minutes to build, so it is kept in a file (build/bench/
// hnsw-*.faiss) and reused by the next run with the same vectors.
//
// FAISS's distances are squared, in float32; for several queries it computes
// them from inner products.
#include <faiss/IndexFlat.h>
#include <faiss/IndexHNSW.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/index_io.h>
#include <omp.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmath>
#include <vector>

extern "C" {
#include "finder.h"
#include "harness.h"
}

namespace {

struct faiss_finder {
  faiss::Index *index = nullptr;
  faiss::Index *quantizer = nullptr;
};

enum { HNSW_NEIGHBOURS = 32 };

void *filled(const finder_options *options, faiss::Index *index,
             faiss::Index *quantizer) {
  const points *p = options->points;
  omp_set_num_threads(options->threads);
  if (!index->is_trained) {
    index->train((faiss::Index::idx_t)p->n, p->vectors);
  }
  index->add((faiss::Index::idx_t)p->n, p->vectors);
  return new faiss_finder{index, quantizer};
}

void *flat_open(const finder_options *options) {
  return filled(options, new faiss::IndexFlatL2((int)options->points->dim),
                nullptr);
}

void *ivf_open(const finder_options *options) {
  int dim = (int)options->points->dim;
  auto *quantizer = new faiss::IndexFlatL2(dim);
  return filled(options,
                new faiss::IndexIVFFlat(quantizer, (size_t)dim, options->lists),
                quantizer);
}

void *hnsw_open(const finder_options *options) {
  const points *p = options->points;
  const char *file = path("%s/hnsw-%016llx.faiss", options->results,
                          (unsigned long long)XXH3_64bits(
                              p->vectors, p->n * p->dim * sizeof(float)));
  if (!access(file, R_OK)) {
    return new faiss_finder{faiss::read_index(file), nullptr};
  }
  void *finder = filled(
      options, new faiss::IndexHNSWFlat((int)p->dim, HNSW_NEIGHBOURS), nullptr);
  faiss::write_index(static_cast<faiss_finder *>(finder)->index, file);
  return finder;
}

void faiss_close(void *finder) {
  auto *f = static_cast<faiss_finder *>(finder);
  delete f->index;
  delete f->quantizer;
  delete f;
}

void faiss_ask(void *finder, const question *q, int64_t *keys,
               double *distances) {
  auto *f = static_cast<faiss_finder *>(finder);
  size_t all = q->n * q->k;
  std::vector<float> squares(all);
  std::vector<faiss::Index::idx_t> labels(all);
  if (auto *ivf = dynamic_cast<faiss::IndexIVFFlat *>(f->index)) {
    ivf->nprobe = (size_t)q->effort;
  } else if (auto *hnsw = dynamic_cast<faiss::IndexHNSW *>(f->index)) {
    hnsw->hnsw.efSearch = q->effort;
  }
  omp_set_num_threads(q->threads);
  f->index->search((faiss::Index::idx_t)q->n, q->queries,
                   (faiss::Index::idx_t)q->k, squares.data(), labels.data());
  for (size_t i = 0; i < all; i++) {
    keys[i] = labels[i] + 1;
    distances[i] = std::sqrt((double)squares[i]);
  }
}

uint64_t ivf_bytes(void *finder) {
  auto *ivf = static_cast<faiss::IndexIVFFlat *>(
      static_cast<faiss_finder *>(finder)->index);
  return (uint64_t)ivf->ntotal * sizeof(faiss::Index::idx_t) +
         (uint64_t)ivf->nlist * (uint64_t)ivf->d * sizeof(float);
}

uint64_t hnsw_bytes(void *finder) {
  auto *index = static_cast<faiss::IndexHNSW *>(
      static_cast<faiss_finder *>(finder)->index);
  const faiss::HNSW &graph = index->hnsw;
  return graph.neighbors.size() * sizeof(graph.neighbors[0]) +
         graph.offsets.size() * sizeof(graph.offsets[0]) +
         graph.levels.size() * sizeof(graph.levels[0]);
}

} // namespace

extern "C" {
const finder_kind finder_faiss_flat = {"FAISS flat", "IndexFlatL2", nullptr,
                                       flat_open,    faiss_close,   faiss_ask,
                                       nullptr};
const finder_kind finder_faiss_ivf = {
    "FAISS IVF-flat", "IndexIVFFlat", "probes", ivf_open,
    faiss_close,      faiss_ask,      ivf_bytes};
const finder_kind finder_faiss_hnsw = {
    "FAISS HNSW", "IndexHNSWFlat, 32 neighbours",
    "efSearch",   hnsw_open,
    faiss_close,  faiss_ask,
    hnsw_bytes};
}
