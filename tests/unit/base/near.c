/* SPDX-License-Identifier: MIT
**
** near.c -- suggestions for an unknown name (engine/base/near.c).
*/
#include "engine/base/near.h"

#include "test.h"

static const char *const names[] = {"memory", "timeout", "adam", "adamw",
                                    "io",     "ftrl",    "seed", "evict"};

static const char *nearest(const char *text) {
  struct near near;
  near_start(&near, text, strlen(text));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    near_offer(&near, names[i]);
  return near.best ? near.best : "none";
}

static void is_near(const char *text, const char *name) {
  (void)test_check(strcmp(nearest(text), name) == 0, __FILE__, __LINE__,
                   "%s is near to %s, not to %s", text, nearest(text), name);
}

TEST(letters_added_left_out_changed_or_swapped) {
  is_near("memmory", "memory");
  is_near("memry", "memory");
  is_near("memary", "memory");
  is_near("memroy", "memory");
  is_near("MEMORY", "memory");
  is_near("Adam", "adam");
  is_near("adma", "adam");
  is_near("adamw2", "adamw");
  is_near("time_out", "timeout");
  is_near("tiemoutt", "timeout");
}

TEST(what_is_too_far_is_not_proposed) {
  is_near("", "none");
  is_near("zzz", "none");
  is_near("i", "io");
  is_near("oi", "io");
  is_near("xy", "none");
  is_near("sofa", "none");
  is_near("memorandum", "none");
  is_near("a-name-that-is-longer-than-all-that-there-are", "none");
}

/* The distance is at most the number of random edits made. */
TEST(edits_are_counted) {
  for (int round = 0; round < 2000; round++) {
    char text[64] = "abcdefghijklmnop";
    unsigned edits = (unsigned)(test_random() % 3);
    struct near near;
    for (unsigned i = 0; i < edits; i++) {
      size_t n = strlen(text), at = test_random() % n;
      if (test_random() % 2)
        memmove(text + at, text + at + 1, n - at);
      else
        text[at] = '#';
    }
    near_start(&near, text, strlen(text));
    near_offer(&near, "abcdefghijklmnop");
    if (!CHECK(near.best != NULL) || !CHECK(near.distance <= edits))
      return;
  }
}

TEST(all_are_listed) {
  struct near near;
  near_start(&near, "fttl", 4);
  CHECK_STR(near_text(&near), "");
  near_start(&near, "fttl", 4);
  near_offer(&near, "one");
  CHECK_STR(near_text(&near), "; expected one");
  near_start(&near, "fttl", 4);
  near_offer(&near, "one");
  near_offer(&near, "ftrl");
  CHECK_STR(near_text(&near), "; expected one or ftrl; did you mean ftrl?");
  near_start(&near, "x", 1);
  near_offer(&near, "one");
  near_offer(&near, "two");
  near_offer(&near, "ten");
  CHECK_STR(near_text(&near), "; expected one, two or ten");
}

TEST(a_list_that_is_too_long_ends) {
  struct near near;
  near_start(&near, "x", 1);
  for (int i = 0; i < 100; i++)
    near_offer(&near, "memorandum");
  CHECK_EQ_INT(strlen(near_text(&near)), NEAR_TEXT - 1);
}

TEST(the_same_whatever_the_case) {
  CHECK(near_same("adam", "ADAM", 4));
  CHECK(near_same("adam", "adamw", 4));
  CHECK(!near_same("adam", "ada", 3));
  CHECK(!near_same("adam", "adamw", 5));
  CHECK(!near_same("adam", "", 0));
  CHECK(near_same("", "", 0));
  CHECK(!near_same("a[", "a{", 2));
  CHECK(near_same("k-center", "K_Center", 8));
  CHECK(near_is("log_determinant", "Log-Determinant"));
  CHECK(!near_is("k-center", "kcenter") && !near_is("k-center", "k-center-"));
  CHECK(near_order("a-b", 3, "A_B", 3) == 0 && near_order("a", 1, "B", 1) < 0);
  CHECK(near_order("ab", 2, "a", 1) > 0 && near_order("", 0, "a", 1) < 0);
}
