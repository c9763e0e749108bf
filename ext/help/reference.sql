-- reference.sql -- writes sql/manual/reference.md from emb_help: make reference.
SELECT text FROM (
SELECT 0 AS part, '' AS name, '' AS kind, '# Reference

Everything that emb adds to SQL, in alphabetical order. `make reference` writes this page
from the rows of `emb_help`; change those, in `ext/help/`.

```sql
SELECT kind, signature, in_transaction FROM emb_help(''emb_apply'');
SELECT name FROM emb_help(''neighbour'') WHERE kind IN (''statement'', ''table-valued function'');
SELECT name, kind FROM emb_help(''stalness'');
```
```text
function|emb_apply(table, keys, gradients [, lr [, step [, updated_at [, options]]]])|no
emb_nearest
MATCH
staleness|table option
staleness|statistic
```

| call | rows |
|---|---|
| `emb_help` | one for each name and kind |
| `emb_help(word)` | those of this name, with or without `emb_`, then, if it is without, those whose name contains it; if there are none, those that contain the word or each of the words; if there are none, those that contain one of them; then those of the nearest name |

Case is ignored, and `-` is the same as `_`. If nothing is similar, there is no row. Every
[entry point](c.md#entry-points) registers `emb_help`, and it lists everything, also what
the entry point leaves out.

| column | meaning |
|---|---|
| `name`, `kind` | what it is; a name may be of several kinds |
| `signature` | how it is written; brackets enclose what may be left out |
| `arguments` | name, type, shape and unit of each, or the values of an option; of a statistic, its type and unit |
| `result` | what it returns or does |
| `errors` | result codes and their causes, besides those that [any statement](errors.md#codes) may have |
| `in_transaction` | `yes`: it belongs to the transaction, and ROLLBACK undoes it. `no`: it acts at once, and ROLLBACK does not undo it. `read`: it changes nothing |
| `page` | the page of this manual, and its heading |

dim is the number of elements of a row, all its vector columns together, and n the number
of keys. A BLOB is little-endian, without a header.' AS text
UNION ALL
SELECT 1, name, kind, printf('
## %s

`%s`

%s, transaction: %s, page: [%s](%s)

* arguments: %s
* result: %s
* errors: %s', name, signature, kind, in_transaction, substr(page, 1, instr(page, '.md') - 1), page,
  replace(arguments, '*', '\*'), replace(result, '*', '\*'), replace(errors, '*', '\*'))
  FROM emb_help
) ORDER BY part, name COLLATE NOCASE, kind;
