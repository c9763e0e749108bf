# amalgamation.tcl -- engine and extension as one C file and the public headers.
#
#     tclsh ext/amalgamation.tcl DIRECTORY ?FILE ...?
#
# Writes DIRECTORY/emb.c from the sources FILE, in the order given, and copies
# the public headers next to it.  A header is inserted where it is first
# included; a header without a guard is a template, and is inserted each time.
# Macros that a source file defines are undefined at its end.  Static names are
# unique in the whole project, which the compiler checks here.  The environment
# variable COMMIT names the commit that the file is made from.

set root [file dirname [file dirname [file normalize [info script]]]]
set seen [dict create]
set public {engine/emb.h engine/storage/pack/emb_file.h engine/data/emb_data.h}

proc text {path} {
  set channel [open $path]
  set text [read $channel]
  close $channel
  return $text
}

proc relative {path} {
  return [string range $path [string length $::root/] end]
}

proc is_guarded {text} {
  return [regexp -line {^#ifndef \w+_H$} $text]
}

# The lines of a file, with all our headers inserted.
proc expand {path} {
  set text [text $path]
  set out [list "/* ---- [relative $path] ---- */"]
  foreach line [split [string trimright $text \n] \n] {
    if {![regexp {^# *include "(.*)"} $line all name]} {
      lappend out $line
      continue
    }
    set header [file normalize [file join [file dirname $path] $name]]
    if {![file exists $header]} {set header [file join $::root $name]}
    if {[relative $header] in $::public || "engine/$name" in $::public} {
      lappend out "#include \"[file tail $name]\""
    } elseif {![dict exists $::seen $header]} {
      if {[is_guarded [text $header]]} {dict set ::seen $header 1}
      lappend out {*}[expand $header] "/* ---- [relative $path], on ---- */"
    }
  }
  return $out
}

# The macros that this file defines and no other file needs.
proc undefine {path} {
  set names {}
  foreach {all name} [regexp -all -inline -line {^# *define (\w+)} [text $path]] {
    lappend names $name
  }
  return [lmap name [lsort -unique $names] {string cat "#undef " $name}]
}

set sources [lassign $argv directory]
regexp {EMB_VERSION "(.*?)"} [text $root/engine/emb.h] all version
set lines [list \
  "/* SPDX-License-Identifier: MIT" \
  "**" \
  "** emb $version, an SQLite extension for embedding tables, as one file.  Made by" \
  "** `make amalgamation` from the sources that it names; change those." \
  "**" \
  "**   cc -std=gnu11 -O2 -ffp-contract=off -fPIC -fvisibility=hidden -shared emb.c \\" \
  "**      -o emb.so -luring -lxxhash -lzstd -lpthread -lm" \
  "**" \
  "** -DEMB_OMIT_DATA leaves out what chooses training data (emb_data.h)." \
  "** With -DSQLITE_CORE it is linked with SQLite itself; call sqlite3_emb_init, or" \
  "** give it to sqlite3_auto_extension." \
  "*/" \
  "#ifndef _GNU_SOURCE" "#define _GNU_SOURCE" "#endif"]
if {[info exists env(COMMIT)] && $env(COMMIT) ne ""} {
  lappend lines "#ifndef EMB_COMMIT" "#define EMB_COMMIT \"$env(COMMIT)\"" "#endif"
}
# The code for choosing training data comes last, and can be left out as a
# block: only headers that it includes itself are in between.
proc is_of_data {path} {
  return [string match */data/* [relative [file normalize $path]]]
}
set others [lmap source $sources {if {[is_of_data $source]} continue; set source}]
set data [lmap source $sources {if {![is_of_data $source]} continue; set source}]
if {[llength $data] == 0} {lappend lines "#define EMB_OMIT_DATA"}
foreach source [concat $others $data] {
  if {$source eq [lindex $data 0]} {lappend lines "#ifndef EMB_OMIT_DATA"}
  set path [file normalize $source]
  lappend lines {*}[expand $path] {*}[undefine $path]
}
if {[llength $data]} {lappend lines "#endif /* EMB_OMIT_DATA */"}
file mkdir $directory
set channel [open $directory/emb.c w]
puts $channel [join $lines \n]
close $channel
foreach header $public {file copy -force $root/$header $directory}
