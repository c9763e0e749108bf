/* SPDX-License-Identifier: MIT
**
** date.c -- parses dates as maintainers wrote them; see date.h.
**
** The text is split at blanks and commas, and the form of each piece shows
** its kind: a time has a colon, a zone a sign, a year four digits or a number
** that is no day, a month its first three letters.  All other words are
** weekdays or names of unknown zones.
*/
#include "date.h"

#include <string.h>
#include <strings.h>

enum { UNSET = -1, YEAR_FIRST = 1993, YEAR_LAST = 9999 };

struct date {
  int year, month, day;     /* the month from 1 */
  int hour, minute, second; /* all of them, or none */
  int offset;               /* minutes east of Greenwich */
  int has_zone;
};

static int digits(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9') {
      return 0;
    }
  }
  return n > 0;
}

/* At most four digits. */
static int number(const char *s, size_t n) {
  int value = 0;
  for (size_t i = 0; i < n; i++) {
    value = 10 * value + (s[i] - '0');
  }
  return value;
}

static int set(int *part, int value) {
  if (*part != UNSET) {
    return 1;
  }
  *part = value;
  return 0;
}

static int take_number(struct date *date, const char *s, size_t n) {
  int value;
  if (n > 4) {
    return 1;
  }
  value = number(s, n);
  if (n <= 2 && date->day == UNSET && value <= 31) {
    return set(&date->day, value);
  }
  return set(&date->year, n > 2 ? value : value + (value < 70 ? 2000 : 1900));
}

/* hh:mm or hh:mm:ss; a part may have one digit. */
static int take_time(struct date *date, const char *s, size_t n) {
  int part[3] = {0, 0, 0}, count = 0;
  const char *end = s + n;
  while (s <= end && count < 3) {
    const char *colon = memchr(s, ':', (size_t)(end - s));
    size_t length = (size_t)((colon ? colon : end) - s);
    if (!digits(s, length) || length > 2) {
      return 1;
    }
    part[count++] = number(s, length);
    s += length + 1;
  }
  if (s <= end || count < 2 || part[0] > 23 || part[1] > 59 || part[2] > 60) {
    return 1;
  }
  date->minute = part[1];
  date->second = part[2];
  return set(&date->hour, part[0]);
}

/* +hhmm */
static int take_offset(struct date *date, const char *s, size_t n) {
  if (n != 5 || !digits(s + 1, 4) || date->has_zone) {
    return 1;
  }
  int minutes = 60 * number(s + 1, 2) + number(s + 3, 2);
  if (minutes > 15 * 60) {
    return 1;
  }
  date->has_zone = 1;
  date->offset = *s == '-' ? -minutes : minutes;
  return 0;
}

static int take_word(struct date *date, const char *s, size_t n) {
  static const char MONTHS[] = "janfebmaraprmayjunjulaugsepoctnovdec";
  static const struct {
    const char *name;
    int hours;
  } ZONE[] = {{"EST", -5}, {"EDT", -4}, {"CST", -6}, {"CDT", -5}, {"MST", -7},
              {"MDT", -6}, {"PST", -8}, {"PDT", -7}, {"BST", 1},  {"MET", 1},
              {"CET", 1},  {"MEST", 2}, {"CEST", 2}, {"EET", 2},  {"JST", 9}};
  for (size_t i = 0; i < sizeof(ZONE) / sizeof(*ZONE); i++) {
    if (strlen(ZONE[i].name) == n && !strncasecmp(s, ZONE[i].name, n)) {
      /* After a numeric offset, the name is a comment. */
      date->offset = date->has_zone ? date->offset : 60 * ZONE[i].hours;
      date->has_zone = 1;
      return 0;
    }
  }
  for (int month = 0; n >= 3 && month < 12; month++) {
    if (!strncasecmp(s, MONTHS + 3 * month, 3)) {
      return set(&date->month, month + 1);
    }
  }
  return 0;
}

static int take(struct date *date, const char *s, size_t n) {
  if (digits(s, n)) {
    return take_number(date, s, n);
  }
  if (memchr(s, ':', n)) {
    return take_time(date, s, n);
  }
  if (*s == '+' || (*s == '-' && n > 1)) {
    return take_offset(date, s, n);
  }
  return take_word(date, s, n);
}

/* Days since 1970-01-01 of a day of the Gregorian calendar: years begin in
** March, so that a leap day is the last day of its year. */
static int64_t days_of(int year, int month, int day) {
  int64_t y = month > 2 ? year : year - 1;
  int64_t m = month > 2 ? month - 3 : month + 9;
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 -
         719468;
}

static int is_day(const struct date *date) {
  static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int y = date->year;
  int leap = date->month == 2 && (y % 4 == 0 && (y % 100 || y % 400 == 0));
  return date->day >= 1 && date->day <= DAYS[date->month - 1] + leap;
}

int date_read(const char *text, size_t length, int64_t *at) {
  static const char BETWEEN[] = " \t,()\r";
  struct date date = {UNSET, UNSET, UNSET, UNSET, 0, 0, 0, 0};
  const char *end = text + length;
  while (text < end) {
    const char *from = text;
    while (text < end && *text && !strchr(BETWEEN, *text)) {
      text++;
    }
    if (text > from && take(&date, from, (size_t)(text - from))) {
      return 1;
    }
    text++;
  }
  if (date.year < YEAR_FIRST || date.year > YEAR_LAST || date.month == UNSET ||
      date.day == UNSET || date.hour == UNSET || !is_day(&date)) {
    return 1;
  }
  *at = 86400 * days_of(date.year, date.month, date.day) +
        60 * (60 * date.hour + date.minute - date.offset) + date.second;
  return 0;
}
