#!/usr/bin/tclsh
# report.tcl -- turns the results of benchmarks into tables and plots.
#
#     tclsh bench/report.tcl RESULTS [README-DIRECTORY]
#
# Reads RESULTS/*.tsv (their format: bench/figure.c) and RESULTS/machine.txt,
# writes RESULTS/report.md and RESULTS/NAME.svg.  With a second argument the
# tables replace what is between the two markers of that directory's README.md,
# and the plots are copied beside it.

set order {memory rows clock update online export disk skew put growth load steady warm lookahead bound processes nearest drift text sample samples average choose bag wordnet}

# ---- reading -----------------------------------------------------------------

proc lines {file} {
  set f [open $file]
  set text [read -nonewline $f]
  close $f
  return [split $text \n]
}

# A figure is a dict: name title date rounds size notes axis groups; a group:
# name unit x medians targets.
proc read_figure {file} {
  set figure [dict create notes {} axis "" steps 0 groups {}]
  foreach line [lines $file] {
    set fields [split $line \t]
    set rest [lrange $fields 1 end]
    switch [lindex $fields 0] {
      figure {
        foreach name {name title date rounds size} value $rest {
          dict set figure $name $value
        }
      }
      note { dict lappend figure notes [lindex $rest 0] }
      axis {
        dict set figure axis [lindex $rest 0]
        dict set figure steps [expr {[lindex $rest 1] eq "steps"}]
      }
      group {
        lassign $rest number name unit x
        dict set figure groups $number \
          [dict create name $name unit $unit x $x medians {} targets {}]
      }
      median { add_to figure medians $rest }
      ratio {
        lassign $rest number above below
        add_to figure targets \
          [linsert [lrange $rest 3 end] 0 $number "$above / $below" 1]
      }
      bound {
        lassign $rest number series
        add_to figure targets [linsert [lrange $rest 2 end] 0 $number $series 0]
      }
    }
  }
  return $figure
}

proc add_to {variable list fields} {
  upvar $variable figure
  set group [dict get $figure groups [lindex $fields 0]]
  dict lappend group $list [lrange $fields 1 end]
  dict set figure groups [lindex $fields 0] $group
}

# ---- numbers -----------------------------------------------------------------

proc human {x} {
  if {$x eq "-"} { return – }
  set size [expr {abs($x)}]
  if {$size >= 1e6} { return [short [expr {$x / 1e6}]]M }
  if {$size >= 1e4} { return [short [expr {$x / 1e3}]]k }
  return [short $x]
}

# Three digits, no exponent.
proc short {x} {
  set size [expr {abs($x)}]
  if {$size >= 100 || $x == 0} { return [format %.0f $x] }
  if {$size >= 10} { return [format %.1f $x] }
  if {$size >= 0.1} { return [format %.2f $x] }
  return [format %.2g $x]
}

proc spread {median min max} {
  if {$median eq "-"} { return – }
  return "[human $median] ([human $min]..[human $max])"
}

# ---- tables ------------------------------------------------------------------

proc table_of_medians {figure} {
  set out "| | | median (min..max) | unit | cores | of these the store's |\
           batch p50, p99 |\n|---|---|--:|---|--:|--:|--:|\n"
  dict for {number group} [dict get $figure groups] {
    foreach row [dict get $group medians] {
      lassign $row series median min max cores engine others p50 p99
      set times [expr {$p50 eq "-" ? "–" : "[human $p50], [human $p99] µs"}]
      append out "| [dict get $group name] | $series |\
        [spread $median $min $max] | [dict get $group unit] | [human $cores] |\
        [human $engine] | $times |\n"
    }
  }
  return $out
}

proc table_of_targets {figure} {
  set rows ""
  dict for {number group} [dict get $figure groups] {
    foreach row [dict get $group targets] {
      lassign $row what ratio median min max relation target met
      set wanted [expr {$target eq "-" ? "–" : "$relation [human $target]"}]
      append rows "| [dict get $group name] | $what |\
        [spread $median $min $max] | $wanted | [string map {- –} $met] |\n"
    }
  }
  if {$rows eq ""} { return "" }
  return "| | ratio or value | median (min..max) | target | |\n\
          |---|---|--:|--:|---|\n$rows\n"
}

proc section {figure} {
  set name [dict get $figure name]
  set out "### [string toupper $name 0]: [dict get $figure title]\n\n"
  append out "[dict get $figure date] UTC, [dict get $figure rounds] rounds,\
              [dict get $figure size] size.\n\n"
  foreach note [dict get $figure notes] { append out "* $note\n" }
  append out "\n!\[$name\]($name.svg)\n\n"
  append out [table_of_targets $figure]
  append out "<details><summary>All values</summary>\n\n"
  append out "[table_of_medians $figure]\n</details>\n"
  return $out
}

# ---- plots -------------------------------------------------------------------

set colours {#1b6ca8 #c8553d #3a7d44 #8d5a97 #b8860b #4a4a4a #008b8b #a0522d}

proc escape {text} {
  return [string map {& &amp; < &lt; > &gt;} $text]
}

proc text {x y text {anchor start} {size 12} {colour #222}} {
  return "<text x=\"[format %.1f $x]\" y=\"[format %.1f $y]\"\
    text-anchor=\"$anchor\" font-size=\"$size\" fill=\"$colour\">[escape $text]</text>\n"
}

proc line {x1 y1 x2 y2 {colour #ddd} {width 1}} {
  return [format {<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"\
    stroke-width="%s"/>} $x1 $y1 $x2 $y2 $colour $width]\n
}

proc dot {x y colour} {
  return [format {<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>} $x $y \
    $colour]\n
}

# A scale is {kind low high from to}: values low..high are drawn at from..to.
# near 1: values that are near each other may fill it.
proc scale_of {values from to {near 0}} {
  set low [tcl::mathfunc::min {*}$values]
  set high [tcl::mathfunc::max {*}$values]
  if {$low > 0 && $high / $low > 4} {
    return [list log [expr {$low / 1.25}] [expr {$high * 1.25}] $from $to]
  }
  if {$high <= 0} { set high 1 }
  if {$near && $low > 0.8 * $high} {
    set room [expr {max($high - $low, 0.001 * $high) / 4}]
    return [list linear [expr {$low - $room}] [expr {$high + $room}] $from $to]
  }
  return [list linear 0 [expr {$high * 1.08}] $from $to]
}

proc place {scale value} {
  lassign $scale kind low high from to
  if {$kind eq "log"} {
    set value [expr {log($value)}]
    set low [expr {log($low)}]
    set high [expr {log($high)}]
  }
  return [expr {$from + ($to - $from) * ($value - $low) / ($high - $low)}]
}

proc ticks {scale} {
  lassign $scale kind low high
  set out {}
  if {$kind eq "log"} {
    set digits [expr {$high / $low > 300 ? {1} : {1 2 5}}]
    for {set e [expr {int(floor(log10($low)))}]} {$e <= log10($high)} {incr e} {
      foreach digit $digits {
        set tick [expr {$digit * 10.0 ** $e}]
        if {$tick >= $low && $tick <= $high} { lappend out $tick }
      }
    }
    return $out
  }
  set range [expr {$high - $low}]
  set step [expr {10.0 ** floor(log10($range / 2))}]
  foreach factor {1 2 5} {
    if {$range / ($step * $factor) <= 6} { break }
  }
  set step [expr {$step * $factor}]
  for {set i [expr {int(ceil($low / $step))}]} {$i * $step <= $high} {incr i} {
    lappend out [expr {$i * $step}]
  }
  return $out
}

proc numbers {list} {
  set out {}
  foreach x $list { if {$x ne "-"} { lappend out $x } }
  return $out
}

# emb, ceilings, others.
proc colour_of {series} {
  if {[string match emb* $series]} { return #c8553d }
  foreach pattern {*ceiling trivial* bare* random* sequential* half* best* Belady*
                   {in memory} {no bound}} {
    if {[string match $pattern $series]} { return #777 }
  }
  return #1b6ca8
}

# Dots: a row per series, min to max as a line, the median as a dot.
proc dots_panel {group top} {
  set rows [dict get $group medians]
  set values {}
  foreach row $rows { lappend values {*}[numbers [lrange $row 1 3]] }
  if {![llength $values]} { return [list "" $top] }
  set scale [scale_of $values 230 730]
  set bottom [expr {$top + 26 + 20 * [llength $rows]}]
  set out [text 10 [expr {$top + 14}] \
    "[dict get $group name], [dict get $group unit]" start 13]
  foreach tick [ticks $scale] {
    set x [place $scale $tick]
    append out [line $x [expr {$top + 22}] $x $bottom]
    append out [text $x [expr {$bottom + 14}] [human $tick] middle 11 #666]
  }
  set y [expr {$top + 36}]
  foreach row $rows {
    lassign $row series median min max
    append out [text 220 [expr {$y + 4}] $series end]
    if {$median ne "-"} {
      set colour [colour_of $series]
      append out [line [place $scale $min] $y [place $scale $max] $y $colour 2]
      append out [dot [place $scale $median] $y $colour]
      append out [text 745 [expr {$y + 4}] [human $median] start 11 #444]
    }
    incr y 20
  }
  return [list $out [expr {$bottom + 34}]]
}

# Would labels at these places, in order, touch?
proc crowded {scale places} {
  set last -Inf
  foreach x $places {
    if {[place $scale $x] - $last < 28} { return 1 }
    set last [place $scale $x]
  }
  return 0
}

# Lines: the groups whose names begin alike, x from the groups.
proc lines_panel {groups axis steps title unit top} {
  global colours
  set points [dict create]
  set xs {}
  set ys {}
  foreach group $groups {
    set x [dict get $group x]
    lappend xs $x
    set label($x) \
      [expr {$steps ? [regsub {.*, } [dict get $group name] ""] : [short $x]}]
    foreach row [dict get $group medians] {
      lassign $row series median min max
      if {$median ne "-"} {
        dict lappend points $series [list $x $median $min $max]
        lappend ys $median $min $max
      }
    }
  }
  if {![llength $ys]} { return [list "" $top] }
  set bottom [expr {$top + 220}]
  set places [lsort -unique -real $xs]
  set across [scale_of $xs 90 600]
  # Values that were measured, not chosen, are too near each other for labels.
  set many [expr {!$steps && [crowded $across $places]}]
  if {$steps} {
    set across [list linear -0.5 [expr {[llength $places] - 0.5}] 90 600]
  } elseif {$many} {
    if {[lindex $across 0] eq "linear"} {
      set room [expr {([lindex $places end] - [lindex $places 0]) / 50.0}]
      set across [list linear [expr {[lindex $places 0] - $room}] \
        [expr {[lindex $places end] + $room}] 90 600]
    }
    set places [ticks $across]
    foreach tick $places { set label($tick) [short $tick] }
  }
  set up [scale_of $ys $bottom [expr {$top + 30}] [expr {$steps || $many}]]
  set out [text 10 [expr {$top + 14}] "$title, $unit" start 13]
  foreach tick [ticks $up] {
    set y [place $up $tick]
    append out [line 90 $y 600 $y]
    append out [text 84 [expr {$y + 4}] [human $tick] end 11 #666]
  }
  foreach x $places {
    append out [text [place $across $x] [expr {$bottom + 16}] $label($x) \
      middle 11 #666]
  }
  append out [text 345 [expr {$bottom + 32}] $axis middle 11 #666]
  set i 0
  dict for {series list} $points {
    set colour [lindex $colours [expr {$i % [llength $colours]}]]
    set path {}
    foreach point $list {
      lassign $point x median min max
      set px [place $across $x]
      lappend path "[format %.1f $px],[format %.1f [place $up $median]]"
      append out [line $px [place $up $min] $px [place $up $max] $colour 2]
      append out [dot $px [place $up $median] $colour]
    }
    append out "<polyline points=\"$path\" fill=\"none\" stroke=\"$colour\"\
      stroke-width=\"1.5\"/>\n"
    append out [text 612 [expr {$top + 44 + 18 * $i}] $series start 12 $colour]
    incr i
  }
  return [list $out [expr {$bottom + 50}]]
}

proc plot {figure} {
  set out [text 10 20 "[dict get $figure name]: [dict get $figure title]" \
    start 14]
  set top 32
  set panels [dict create]
  dict for {number group} [dict get $figure groups] {
    if {[dict get $group x] eq "-"} {
      lassign [dots_panel $group $top] part top
      append out $part
    } else {
      regexp {^(.*), [^,]*$} [dict get $group name] all title
      dict lappend panels [list $title [dict get $group unit]] $group
    }
  }
  dict for {key groups} $panels {
    lassign [lines_panel $groups [dict get $figure axis] \
      [dict get $figure steps] {*}$key $top] part top
    append out $part
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\"\
    height=\"$top\" font-family=\"sans-serif\">\n<rect width=\"800\"\
    height=\"$top\" fill=\"white\"/>\n$out</svg>\n"
}

# ---- the program -------------------------------------------------------------

proc write_file {file text} {
  set f [open $file w]
  fconfigure $f -encoding utf-8
  puts -nonewline $f $text
  close $f
}

proc machine {results} {
  set out ""
  foreach line [lines $results/machine.txt] {
    lassign [split $line \t] name value
    append out "[string toupper $name 0]: $value.  "
  }
  return [string trim $out]
}

proc take_over {text directory} {
  set file $directory/README.md
  set readme [join [lines $file] \n]
  set begin "<!-- results -->\n"
  set end "<!-- end of results -->"
  set from [expr {[string first $begin $readme] + [string length $begin]}]
  set to [string first $end $readme]
  if {$to < 0 || $from > $to} {
    error "$file has no place for results"
  }
  write_file $file \
    [string range $readme 0 $from-1]$text[string range $readme $to end]\n
}

fconfigure stdout -encoding utf-8
lassign $argv results directory
set report "[machine $results]\n"
foreach name $order {
  if {[file exists $results/$name.tsv]} {
    set figure [read_figure $results/$name.tsv]
    append report "\n[section $figure]"
    write_file $results/$name.svg [plot $figure]
    if {$directory ne ""} {
      file copy -force $results/$name.svg $directory/
    }
  }
}
write_file $results/report.md $report
if {$directory ne ""} {
  take_over $report $directory
}
puts "$results/report.md, $results/*.svg"
