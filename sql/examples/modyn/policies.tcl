# policies.tcl -- makes ext/data/pipeline/policy_text.c from the policy files.
#
#     tclsh sql/examples/modyn/policies.tcl > ext/data/pipeline/policy_text.c
#
# The C file is under version control, so that a build needs only a compiler;
# tests/sql/data/pipeline_schema.test checks that it matches the files.  A
# policy is a file KIND/NAME.sql that begins with comments:
#
#     -- What it does, in one paragraph.
#     -- option NAME: TYPE, LEAST to MOST, one of A|B, default VALUE, needed; ABOUT
#
# All but NAME, TYPE and ABOUT may be left out (LEAST to: no MOST).

set root [file dirname [file normalize [info script]]]
set kinds {triggers trigger criteria criterion selection selection
           downsampling downsampling intervals interval}

proc string_of {text} {
  return \"[string map {\\ \\\\ \" \\\" \n \\n} $text]\"
}

# A text as C string literals, one per line of the text.
proc literal {text indent} {
  set lines {}
  foreach line [split [string trimright $text \n] \n] {
    lappend lines "$indent[string_of $line\n]"
  }
  if {[llength $lines] == 0} {return $indent\"\"}
  join $lines \n
}

proc json_string {text} {
  return \"[string map {\\ \\\\ \" \\\"} $text]\"
}

# A value as JSON; numbers and booleans stay as they are.
proc json {text} {
  expr {[regexp {^-?[0-9.]+$} $text] || $text in {true false} ? $text : [json_string $text]}
}

proc option {line} {
  if {![regexp {^-- option (\w+): (.*?); (.*)$} $line all name said about]} {
    error "cannot understand: $line"
  }
  set parts [split $said ,]
  set fields [list "\"name\":[json_string $name]" \
                "\"type\":[json_string [string trim [lindex $parts 0]]]"]
  foreach part [lrange $parts 1 end] {
    set part [string trim $part]
    if {[regexp {^(-?[0-9.]+) to ?(-?[0-9.]*)$} $part all least most]} {
      lappend fields "\"least\":$least"
      if {$most ne ""} {lappend fields "\"most\":$most"}
    } elseif {[regexp {^one of (.*)$} $part all values]} {
      lappend fields "\"one_of\":\[[join [lmap v [split $values |] {json_string $v}] ,]\]"
    } elseif {[regexp {^default (.*)$} $part all value]} {
      lappend fields "\"default\":[json $value]"
    } elseif {$part eq "needed"} {
      lappend fields "\"needed\":1"
    } else {
      error "cannot understand \"$part\" in: $line"
    }
  }
  lappend fields "\"about\":[json_string $about]"
  return "{[join $fields ,]}"
}

# Reads a policy file: the list of kind, name, about, options, sql.
proc policy {kind path} {
  set channel [open $path]
  set text [read $channel]
  close $channel
  set about {}
  set options {}
  foreach line [split $text \n] {
    if {[string match "-- option *" $line]} {
      lappend options [option $line]
    } elseif {[regexp {^-- ?(.*)$} $line all words]} {
      lappend about $words
    } else {
      break
    }
  }
  list $kind [file rootname [file tail $path]] [string trim [join $about { }]] \
    "\[[join $options ,]\]" $text
}

puts [string map {@ \{} {/* SPDX-License-Identifier: MIT
**
** policy_text.c -- the policies of sql/examples/modyn/, as text.  Made by
** sql/examples/modyn/policies.tcl: change the files there.
*/
#include "pipeline.h"

/* clang-format off */
const struct ext_policy_text ext_policy_texts[] = @}]
set n 0
foreach {folder kind} $kinds {
  foreach path [lsort [glob -nocomplain -directory [file join $root $folder] *.sql]] {
    lassign [policy $kind $path] kind name about options sql
    puts "  {\"$kind\", \"$name\",\n    [string_of $about],\n    [string_of $options],"
    puts "[literal $sql "    "]},"
    incr n
  }
}
puts "\};
/* clang-format on */

const size_t ext_policy_texts_n = $n;"
