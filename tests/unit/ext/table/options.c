/* SPDX-License-Identifier: MIT
**
** options.c -- the tables of options (ext/table/options.c) and of hidden
** columns (EXT_HIDDEN in ext/table/table.h) against the manual's.  For each
** option it compares the name, values, default, how the text begins, and
** whether and when 'set' changes the option.
**
** The pages are those in the directory where the tests run.
*/
#include "test.h"
#include "ext/table/table.h"

#include <glob.h>

enum { CELL = 1000, CELLS = 8, NAMES = 32 };

#define OPTIONS_HEAD "| option | values | default | meaning |"
#define CHANGES_HEAD "| options | `'set ...'` takes effect |"

#define COLUMNS_HEAD "| name | hidden | in a row | elsewhere |"

static const char *const pages[] = {"README.md", "sql/*.md", "sql/manual/*.md"};

struct option_doc {
  int seen, changes; /* rows in the two tables */
};
static struct option_doc docs[EXT_OPTIONS_MAX];

/* Cuts a line at its bars, without backquotes; returns how many cells. */
static int cut(char *line, char cells[CELLS][CELL]) {
  int n = 0;
  char *end;
  for (char *at = strchr(line, '|'); at && n < CELLS; at = end) {
    size_t length = 0;
    at += 1 + strspn(at + 1, " ");
    end = strchr(at, '|');
    if (end == NULL)
      break;
    for (const char *from = at; from < end && length < CELL - 1; from++)
      if (*from != '`')
        cells[n][length++] = *from;
    while (length > 0 && cells[n][length - 1] == ' ')
      length--;
    cells[n++][length] = 0;
  }
  return n;
}

/* Reads the tables with this head in one page; returns how many there are. */
static int page_rows(const char *page, const char *head,
                     void (*row)(char cells[CELLS][CELL])) {
  FILE *file = fopen(page, "r");
  char line[CELLS * CELL];
  int tables = 0, in_table = 0;
  while (file && fgets(line, sizeof line, file)) {
    char cells[CELLS][CELL];
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, head) == 0)
      tables += in_table = 1;
    else if (line[0] != '|')
      in_table = 0;
    else if (in_table && line[1] != '-' && cut(line, cells) > 0)
      row(cells);
  }
  if (file)
    fclose(file);
  return tables;
}

/* Does the same in all pages. */
static int each_row(const char *head, void (*row)(char cells[CELLS][CELL])) {
  int tables = 0;
  for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
    glob_t found;
    if (glob(pages[i], 0, NULL, &found) != 0)
      continue;
    for (size_t k = 0; k < found.gl_pathc; k++)
      tables += page_rows(found.gl_pathv[k], head, row);
    globfree(&found);
  }
  return tables;
}

/* Cuts "a, b" at the next comma; returns the word, or NULL at the end. */
static char *next(char **list) {
  char *word = *list;
  if (word == NULL || *word == 0)
    return NULL;
  *list = strstr(word, ", ");
  if (*list) {
    **list = 0;
    *list += 2;
  }
  return word;
}

static const struct ext_option *find(const char *name) {
  const struct ext_option *option;
  size_t i = 0;
  while ((option = ext_option_at(i)) && strcmp(option->name, name) != 0)
    i++;
  test_check(option != NULL, __FILE__, __LINE__, "there is no option %s", name);
  return option;
}

static struct option_doc *doc_of(const struct ext_option *option) {
  return &docs[option - ext_option_at(0)];
}

/* As the manual lists values: without the words `or`. */
static void without_or(const char *legal, char *to) {
  for (; *legal; to++) {
    if (strncmp(legal, ", or ", 5) == 0) {
      legal += 5;
      *to++ = ',';
      *to = ' ';
    } else if (strncmp(legal, " or ", 4) == 0) {
      legal += 4;
      *to++ = ',';
      *to = ' ';
    } else {
      *to = *legal++;
    }
  }
  *to = 0;
}

static void check_values(const struct ext_option *option, const char *cell) {
  char legal[EXT_LEGAL_MAX], expected[EXT_LEGAL_MAX];
  without_or(ext_option_legal(option, legal), expected);
  if (option->kind == EXT_CHOICE)
    CHECK_STR(cell, expected);
  else if (option->kind == EXT_NUMBER) {
    char shown[CELL];
    without_or(cell, shown);
    test_check(shown[0] && strncmp(shown, expected, strlen(shown)) == 0,
               __FILE__, __LINE__, "%s: \"%s\" begins \"%s\"", option->name,
               shown, expected);
  }
}

/* The default may be in quotes. */
static void check_default(const struct ext_option *option, const char *cell) {
  char plain[CELL];
  size_t n = 0;
  for (; *cell; cell++)
    if (*cell != '\'')
      plain[n++] = *cell;
  plain[n] = 0;
  CHECK_STR(plain, option->initial);
}

/* Compares the text without the brackets of links. */
static void check_help(const struct ext_option *option, const char *cell) {
  char plain[CELL];
  size_t n = 0;
  for (; *cell; cell++) {
    if (*cell == ']' && cell[1] == '(')
      cell += strcspn(cell, ")");
    else if (*cell != '[')
      plain[n++] = *cell;
  }
  plain[n] = 0;
  test_check(strncmp(plain, option->help, strlen(option->help)) == 0, __FILE__,
             __LINE__, "%s: \"%s\" begins with \"%s\"", option->name, plain,
             option->help);
}

static void check_row(char cells[CELLS][CELL]) {
  char *names = cells[0], *defaults = cells[2], *name;
  while ((name = next(&names)) != NULL) {
    const struct ext_option *option = find(name);
    char *initial = next(&defaults);
    if (option == NULL)
      continue;
    doc_of(option)->seen++;
    check_values(option, cells[1]);
    check_default(option, initial ? initial : "");
    check_help(option, cells[3]);
  }
}

TEST(manual_has_each_option_as_it_is) {
  const struct ext_option *option;
  CHECK_EQ_INT(each_row(OPTIONS_HEAD, check_row), 1);
  for (size_t i = 0; (option = ext_option_at(i)); i++)
    test_check(docs[i].seen == 1, __FILE__, __LINE__, "%s has %d rows",
               option->name, docs[i].seen);
}

static void check_changes(char cells[CELLS][CELL]) {
  char *names = cells[0], *name;
  int at_commit = strncmp(cells[1], "when the transaction commits", 28) == 0;
  while ((name = next(&names)) != NULL) {
    const struct ext_option *option = find(name);
    if (option == NULL)
      continue;
    doc_of(option)->changes++;
    test_check(option->change == (at_commit ? EXT_AT_COMMIT : EXT_AT_OPEN),
               __FILE__, __LINE__, "%s takes effect so", name);
  }
}

TEST(manual_says_what_can_be_changed) {
  const struct ext_option *option;
  CHECK_EQ_INT(each_row(CHANGES_HEAD, check_changes), 1);
  for (size_t i = 0; (option = ext_option_at(i)); i++)
    test_check(docs[i].changes == (option->change != EXT_FIXED), __FILE__,
               __LINE__, "%s is named %d times", option->name, docs[i].changes);
}

static int columns_seen; /* hidden ones, a bit each */

static void check_column(char cells[CELLS][CELL]) {
  char *names = cells[0], *name;
  int column = EXT_COMMAND;
  if (strcmp(cells[1], "yes") != 0)
    return;
  while ((name = next(&names)) != NULL) {
    if (strcmp(name, "the table's") != 0)
      for (column = EXT_FIRST_HIDDEN; column < EXT_MORE; column++)
        if (ext_column(column)->name &&
            strcmp(ext_column(column)->name, name) == 0)
          break;
    if (CHECK(column < EXT_MORE))
      columns_seen |= ext_column_bit(column);
  }
}

TEST(manual_has_each_hidden_column) {
  CHECK_EQ_INT(each_row(COLUMNS_HEAD, check_column), 1);
  CHECK_EQ_INT(columns_seen, ext_column_bit(EXT_MORE) - 1);
}

/* Every legal value that the table lists is taken, and the values next to them
** are not. */
static int is_taken(const struct ext_option *option, const char *value) {
  struct ext_options options;
  char *err = NULL;
  int rc;
  ext_options_init(&options);
  rc = ext_option_set(&options, option, value, &err);
  test_check(rc == SQLITE_OK || (err && strstr(err, option->name)), __FILE__,
             __LINE__, "the error names %s", option->name);
  sqlite3_free(err);
  ext_options_clear(&options);
  return rc == SQLITE_OK;
}

TEST(takes_what_its_row_says) {
  const struct ext_option *option;
  for (size_t i = 0; (option = ext_option_at(i)); i++) {
    char number[32];
    for (int k = 0; k < 4 && option->words[k]; k++)
      CHECK(is_taken(option, option->words[k]));
    if (option->initial[0])
      CHECK(is_taken(option, option->initial));
    if (option->unset)
      CHECK(is_taken(option, option->unset));
    CHECK(option->help && option->help[0]);
    CHECK(option->kind == EXT_TEXT || !is_taken(option, "nonsense"));
    if (option->kind != EXT_NUMBER)
      continue;
    sqlite3_snprintf(sizeof number, number, "%llu", option->least);
    CHECK(is_taken(option, number));
    sqlite3_snprintf(sizeof number, number, "%llu", option->most);
    CHECK(is_taken(option, number));
    sqlite3_snprintf(sizeof number, number, "%llu", option->most + 1);
    CHECK(!is_taken(option, number));
    if (option->least > 0)
      CHECK(!is_taken(option, "0"));
  }
}
