# cross.tcl -- which suites are crossed with which values: another owner of the
# tables, text keys, a transaction, interrupts.  tests/tester.tcl carries the
# values out (CROSS); tests/run.tcl plans with this file (-crossed N).
#
# A RUN     is a suite and one value of each dimension: its owner (own: the
#           suite's own process), its keys, in a transaction or not, with
#           interrupts or not.
# FILE      tests/crossings.txt says which suites cannot run with a value, and
#           which tests differ then.

namespace eval cross {
  variable values {process copy text transaction interrupt}
}

# The lines of a file like crossings.txt: a list of suite, pattern, values,
# whether the pattern always differs, reason.  A wrong line is an error.
proc cross::read_file {path} {
  variable values
  set lines {}
  set number 0
  set file [open $path]
  fconfigure $file -encoding utf-8
  set text [read $file]
  close $file
  foreach line [split $text \n] {
    incr number
    if {[regexp {^\s*(#|$)} $line]} continue
    if {![regexp {^(\S+)\s+(\S+)\s+([a-z,]+)(\??)\s+(\S.*)$} $line \
            all suite pattern which sometimes reason]} {
      error "[file tail $path]:$number: not SUITE PATTERN VALUES REASON: $line"
    }
    set which [split $which ,]
    foreach value $which {
      if {$value ni $values} {
        error "[file tail $path]:$number: no such value: $value"
      }
    }
    lappend lines $suite $pattern $which [expr {$sometimes eq ""}] $reason
  }
  return $lines
}

# Do the lists have an element in common?
proc cross::meet {a b} {
  foreach value $a {
    if {$value in $b} {return 1}
  }
  return 0
}

# The values of CROSS, checked.
proc cross::parse {text} {
  variable values
  set given {}
  foreach value [split $text ,] {
    if {$value ni $values || $value in $given} {
      error "CROSS=$text: $value"
    }
    lappend given $value
  }
  if {"process" in $given && "copy" in $given} {
    error "CROSS=$text: one owner only"
  }
  return $given
}

# ---- the plan ----------------------------------------------------------------

namespace eval cross {
  # The value of each dimension that a suite has without crossing comes first.
  variable dimensions {
    owner {own process copy}
    keys {integer text}
    transaction {no yes}
    interrupt {no yes}
  }
  variable state 1 ;# of the random numbers, which are not those of rand()
}

# An integer in 0 .. n-1.
proc cross::random {n} {
  variable state
  set state [expr {($state * 6364136223846793005 + 1442695040888963407)
                   & 0xffffffffffffffff}]
  expr {($state >> 33) % $n}
}

proc cross::shuffle {list} {
  for {set i [llength $list]} {$i > 1} {} {
    set j [random $i]
    incr i -1
    set kept [lindex $list $i]
    lset list $i [lindex $list $j]
    lset list $j $kept
  }
  return $list
}

# The values of CROSS as a value of each dimension.
proc cross::point {values} {
  set owner own
  foreach value $values {
    if {$value in {process copy}} {set owner $value}
  }
  list $owner [expr {"text" in $values ? "text" : "integer"}] \
    [expr {"transaction" in $values ? "yes" : "no"}] \
    [expr {"interrupt" in $values ? "yes" : "no"}]
}

# The pairs (size 2) or triples of values of different dimensions in a point:
# each a list of dimension and value in turn.
proc cross::tuples {point size} {
  variable dimensions
  set made {{}}
  foreach name [dict keys $dimensions] value $point {
    foreach tuple $made {
      if {[llength $tuple] < 2 * $size} {
        lappend made [list {*}$tuple $name $value]
      }
    }
  }
  lmap tuple $made {
    if {[llength $tuple] < 2 * $size} continue
    set tuple
  }
}

# All tuples.
proc cross::needed {size} {
  variable dimensions
  set points {{}}
  foreach name [dict keys $dimensions] {
    set longer {}
    foreach point $points {
      foreach value [dict get $dimensions $name] {
        lappend longer [list {*}$point $value]
      }
    }
    set points $longer
  }
  set all {}
  foreach point $points {lappend all {*}[tuples $point $size]}
  lsort -unique $all
}

# The lists of values with this owner with which a suite can run: none of them
# is excluded by a line with the pattern *.  A suite that is not crossed at all
# is not a crossed run.
proc cross::choices {excluded owner} {
  set choices {{}}
  foreach value {text transaction interrupt} {
    foreach choice $choices {lappend choices [list {*}$choice $value]}
  }
  if {$owner ne "own"} {
    set choices [lmap choice $choices {list $owner {*}$choice}]
  }
  lmap choice $choices {
    if {$choice eq "" || [meet $choice $excluded]} continue
    set choice
  }
}

# Plans runs of the suites in these files: one in n of all pairs of a suite and
# an owner that it can run with, for one seed or other, and more where a pair of
# values (with n=1: a triple) is met by none of them.  lines: of read_file.
# Returns a dictionary: runs (a list of file and values), met and needed (how
# many), unmet (the tuples that no suite can meet), what ("pairs").
proc cross::plan {files n seed lines} {
  variable state
  set state $seed
  random 2
  array set excluded {}
  foreach {suite pattern values always reason} $lines {
    if {$pattern eq "*"} {lappend excluded($suite) {*}$values}
  }
  set all {}
  foreach owner {own process copy} {
    foreach file $files {
      set suite [file rootname [file tail $file]]
      set not [expr {[info exists excluded($suite)] ? $excluded($suite) : ""}]
      set choices [choices $not $owner]
      if {[llength $choices]} {lappend all [list $file $choices]}
    }
  }
  set drawn {}
  set others {}
  for {set i 0} {$i < [llength $all]} {incr i} {
    lappend [expr {$i % $n == $seed % $n ? "drawn" : "others"}] \
      [lindex $all $i]
  }
  set size [expr {$n == 1 ? 3 : 2}]
  set needed [needed $size]
  foreach tuple $needed {set unmet($tuple) 1}
  set runs {}
  foreach item [shuffle $drawn] {
    lassign $item file choices
    lassign [best $choices $size unmet] values
    lappend runs [list $file $values]
    foreach tuple [tuples [point $values] $size] {unset -nocomplain unmet($tuple)}
  }
  foreach item [shuffle $others] {
    if {![array size unmet]} break
    lassign $item file choices
    lassign [best $choices $size unmet] values gain
    if {!$gain} continue
    lappend runs [list $file $values]
    foreach tuple [tuples [point $values] $size] {unset -nocomplain unmet($tuple)}
  }
  dict create runs $runs needed [llength $needed] \
    met [expr {[llength $needed] - [array size unmet]}] \
    unmet [lsort [array names unmet]] what [lindex {pairs triples} $size-2]
}

# A choice that meets most of the unmet tuples, and how many.
proc cross::best {choices size unmet_name} {
  upvar 1 $unmet_name unmet
  set best -1
  foreach choice [shuffle $choices] {
    set gain 0
    foreach tuple [tuples [point $choice] $size] {
      incr gain [info exists unmet($tuple)]
    }
    if {$gain > $best} {lassign [list $gain $choice] best chosen}
  }
  list $chosen $best
}
