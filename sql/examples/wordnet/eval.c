/* SPDX-License-Identifier: MIT
**
** eval.c -- filtered ranking; see eval.h.
**
** All queries are made first (model_query), each with the score of its right
** answer.  Then the entities are read from the table block by block, and each
** block is multiplied with all queries; only the number of scores that beat
** the right answer is kept.
*/
#include "eval.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum {
  BLOCK = 4096, /* entities read and scored at a time */
  STRIP = 96,   /* queries scored at a time by one thread */
};

/* A known triple as an answer to a query.  After sorting, the answers to one
** query are adjacent, in the order of entities. */
struct answer {
  uint64_t question; /* side, relation and given entity */
  uint32_t entity;
};

struct query {
  uint32_t right; /* the entity asked for */
  float right_score;
  size_t next, end; /* answers in blocks to come */
  size_t better, equal;
};

struct eval {
  size_t dim;
  struct query *queries;
  size_t query_count;
  float *vectors; /* queries x dim */
  struct answer *answers;
  float **scores; /* [members], STRIP x BLOCK */
  float *block;   /* entities of the block x 2*dim */
  size_t block_first, block_count;
};

/* ---- answers ------------------------------------------------------------- */

static struct answer answer_of(const struct triple *t, enum model_side side) {
  uint32_t given = side == PREDICT_TAIL ? t->head : t->tail;
  uint32_t asked = side == PREDICT_TAIL ? t->tail : t->head;
  return (struct answer){
      (uint64_t)side << 63 | (uint64_t)t->relation << 32 | given, asked};
}

static int compare_answers(const void *a, const void *b) {
  const struct answer *left = a, *right = b;
  if (left->question != right->question) {
    return left->question < right->question ? -1 : 1;
  }
  return (left->entity > right->entity) - (left->entity < right->entity);
}

static struct answer *all_answers(const struct eval_graph *graph) {
  struct answer *answers = need(2 * graph->known_count, sizeof(*answers));
  for (size_t i = 0; i < graph->known_count; i++) {
    answers[2 * i] = answer_of(&graph->known[i], PREDICT_TAIL);
    answers[2 * i + 1] = answer_of(&graph->known[i], PREDICT_HEAD);
  }
  qsort(answers, 2 * graph->known_count, sizeof(*answers), compare_answers);
  return answers;
}

/* The first of count sorted answers that is not below the wanted one. */
static size_t lower_bound(const struct answer *answers, size_t count,
                          struct answer wanted) {
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (compare_answers(&answers[middle], &wanted) < 0) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

/* ---- queries ------------------------------------------------------------- */

static void make_query(struct eval *eval, size_t number, const struct triple *t,
                       enum model_side side, const float *given,
                       const float *relation, const float *right,
                       size_t answer_count) {
  struct query *query = &eval->queries[number];
  float *vector = eval->vectors + number * eval->dim;
  struct answer first = answer_of(t, side), last = first;
  model_query(side, given, relation, eval->dim, vector);
  query->right = first.entity;
  for (size_t i = 0; i < eval->dim; i++) {
    query->right_score += vector[i] * right[i];
  }
  first.entity = 0;
  last.entity = UINT32_MAX;
  query->next = lower_bound(eval->answers, answer_count, first);
  query->end = lower_bound(eval->answers, answer_count, last);
}

static void make_queries(struct eval *eval, const struct eval_graph *graph,
                         const struct triple *test, struct table *entities,
                         const float *relations) {
  size_t width = 2 * eval->dim, count = eval->query_count / 2;
  int64_t *keys = need(BLOCK, sizeof(*keys));
  float *rows = need(BLOCK * width, sizeof(float));
  for (size_t first = 0; first < count; first += BLOCK / 2) {
    size_t n = count - first < BLOCK / 2 ? count - first : BLOCK / 2;
    for (size_t i = 0; i < n; i++) {
      keys[2 * i] = graph->keys[test[first + i].head];
      keys[2 * i + 1] = graph->keys[test[first + i].tail];
    }
    table_get(entities, keys, 2 * n, rows);
    for (size_t i = 0; i < n; i++) {
      const struct triple *t = &test[first + i];
      const float *head = rows + 2 * i * width, *tail = head + width;
      const float *relation = relations + t->relation * width;
      size_t number = 2 * (first + i);
      make_query(eval, number, t, PREDICT_TAIL, head, relation, tail,
                 2 * graph->known_count);
      make_query(eval, number + 1, t, PREDICT_HEAD, tail, relation, head,
                 2 * graph->known_count);
    }
  }
  free(keys);
  free(rows);
}

/* ---- scores -------------------------------------------------------------- */

static void count_better(struct eval *eval, struct query *query,
                         float *scores) {
  size_t end = eval->block_first + eval->block_count;
  while (query->next < query->end && eval->answers[query->next].entity < end) {
    scores[eval->answers[query->next++].entity - eval->block_first] = -INFINITY;
  }
  uint32_t better = 0, equal = 0;
  for (size_t i = 0; i < eval->block_count; i++) {
    better += scores[i] > query->right_score;
    equal += scores[i] == query->right_score;
  }
  query->better += better;
  query->equal += equal;
}

static void score_block(void *context, size_t member, size_t members) {
  struct eval *eval = context;
  float *scores = eval->scores[member];
  int dim = (int)eval->dim;
  for (size_t first = member * STRIP; first < eval->query_count;
       first += members * STRIP) {
    size_t left = eval->query_count - first;
    size_t rows = left < STRIP ? left : STRIP;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows,
                (int)eval->block_count, dim, 1,
                eval->vectors + first * eval->dim, dim, eval->block, 2 * dim, 0,
                scores, BLOCK);
    for (size_t i = 0; i < rows; i++) {
      count_better(eval, &eval->queries[first + i], scores + i * BLOCK);
    }
  }
}

static struct eval_result summarise(const struct eval *eval) {
  struct eval_result result = {.ranks = eval->query_count};
  double n = (double)eval->query_count;
  for (size_t i = 0; i < eval->query_count; i++) {
    const struct query *query = &eval->queries[i];
    double rank = 1 + (double)query->better + 0.5 * (double)query->equal;
    result.mrr += 1 / rank / n;
    result.hits1 += (rank <= 1) / n;
    result.hits3 += (rank <= 3) / n;
    result.hits10 += (rank <= 10) / n;
  }
  return result;
}

struct eval_result eval_run(const struct eval_graph *graph,
                            const struct triple *test, size_t count,
                            struct table *entities, const float *relations,
                            struct team *team) {
  struct eval eval = {.dim = entities->width / 2, .query_count = 2 * count};
  size_t members = team_members(team);
  eval.answers = all_answers(graph);
  eval.queries = need(eval.query_count, sizeof(*eval.queries));
  eval.vectors = need(eval.query_count * eval.dim, sizeof(float));
  eval.block = need(BLOCK * entities->width, sizeof(float));
  eval.scores = need(members, sizeof(*eval.scores));
  for (size_t i = 0; i < members; i++) {
    eval.scores[i] = need(STRIP * BLOCK, sizeof(float));
  }

  make_queries(&eval, graph, test, entities, relations);
  for (size_t first = 0; first < graph->entities; first += BLOCK) {
    size_t left = graph->entities - first;
    eval.block_first = first;
    eval.block_count = left < BLOCK ? left : BLOCK;
    table_get(entities, graph->keys + first, eval.block_count, eval.block);
    team_run(team, score_block, &eval);
  }
  struct eval_result result = summarise(&eval);

  for (size_t i = 0; i < members; i++) {
    free(eval.scores[i]);
  }
  free(eval.scores);
  free(eval.block);
  free(eval.vectors);
  free(eval.queries);
  free(eval.answers);
  return result;
}
