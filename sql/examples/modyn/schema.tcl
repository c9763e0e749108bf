# schema.tcl -- makes ext/data/pipeline/schema_text.c from schema.sql and models.sql.
#
#     tclsh sql/examples/modyn/schema.tcl > ext/data/pipeline/schema_text.c
#
# The C file is under version control, so that a build needs only a compiler;
# tests/sql/data/pipeline_create.test checks that it matches the files.
#
# A name of a table, view, index or trigger becomes {name}, which
# emb_pipeline_create replaces: a name with an underscore wherever it is a word,
# another one where it is in double quotes, because columns have such names too
# (in JSON a colon follows the quotes).
# Comments between statements, BEGIN, COMMIT and PRAGMA are left out.

set root [file dirname [file normalize [info script]]]

proc string_of {text} {
  return \"[string map {\\ \\\\ \" \\\" \n \\n} $text]\"
}

# The statements of a file, without their last semicolons.
proc statements {path} {
  set channel [open $path]
  set text [read $channel]
  close $channel
  set all {}
  set statement ""
  foreach line [split $text \n] {
    if {$statement eq "" && [regexp {^(--.*|PRAGMA .*|BEGIN;|COMMIT;)?$} $line]} continue
    append statement $line \n
    set code [string trimright [regsub { -- .*$} $line ""]]
    set end [expr {[string match "CREATE TRIGGER*" $statement] ? "END;" : "*;"}]
    if {[string match $end $code]} {
      lappend all [string range [string trimright $statement] 0 end-1]
      set statement ""
    }
  }
  if {$statement ne ""} {error "$path: no end of: $statement"}
  return $all
}

# The kind and the name of what a statement creates; two empty texts if nothing.
proc created {statement} {
  if {![regexp {^CREATE (TABLE|VIEW|INDEX|TRIGGER) "?(\w+)"?} $statement all kind name]} {
    return {{} {}}
  }
  list [string tolower $kind] $name
}

proc with_braces {statement names} {
  foreach name $names {
    if {[string first _ $name] < 0} {
      regsub -all " \"$name\"(?!:)" $statement " {$name}" statement
    } else {
      regsub -all "\\m$name\\M" $statement "{$name}" statement
    }
  }
  return $statement
}

set files [lmap name {schema models} {statements [file join $root $name.sql]}]
set names {}
foreach file $files {
  foreach statement $file {
    set name [lindex [created $statement] 1]
    if {$name ne ""} {lappend names $name}
  }
}

puts {/* SPDX-License-Identifier: MIT
**
** schema_text.c -- sql/examples/modyn/schema.sql and models.sql, as text.  Made
** by sql/examples/modyn/schema.tcl: change the files there.
*/
#include "pipeline.h"

/* clang-format off */}
foreach file $files name {pipeline models} {
  puts "const struct ext_schema_text ext_schema_${name}\[\] = \{"
  foreach statement $file {
    lassign [lmap word [created $statement] {
      expr {$word eq "" ? "NULL" : [string_of $word]}
    }] kind object
    puts "  {$kind, $object,"
    puts "[join [lmap line [split [with_braces $statement $names] \n] {
      string cat {    } [string_of $line\n]
    }] \n]},"
  }
  puts "\};\n"
}
puts "/* clang-format on */
"
foreach file $files name {pipeline models} {
  puts "const size_t ext_schema_${name}_n = [llength $file];"
}
