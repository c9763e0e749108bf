/* SPDX-License-Identifier: MIT
**
** data.h -- ext/data/: choosing training data, through SQL.
**
** ROLE      A separate product next to the tables of module emb, with its own
**           entry point (sqlite3_emb_data_init): files of samples, coresets and
**           drift, pipelines that decide when and on what to train, joined
**           events, and the evaluation and differences of models.  None of it
**           needs a store.  Uses value/, conn/, fn/ and tvf/; none of these
**           depends on it: they are complete without it (make OMIT_DATA=1).
** FOLDERS   dataset/   the module emb_samples: records of files
**           choose/    emb_random, emb_entropy, emb_coreset, emb_drift_*
**           models/    emb_accuracy and others, emb_diff, emb_patch
**           join/      emb_join: requests and actions become examples
**           pipeline/  emb_pipeline_run and others, over ordinary tables
** THREADS   Those of a connection.
*/
#ifndef EMB_EXT_DATA_H
#define EMB_EXT_DATA_H

#include "ext/conn/conn.h"

/* Registers the functions that touch no table and no file: INNOCUOUS and
** DETERMINISTIC, in all entry points.  Returns an SQLite code. */
int ext_data_register_functions(sqlite3 *db);
/* Registers all others. */
int ext_data_register(struct ext_conn *conn);

#endif
