# run.tcl -- runs test programs, each in its own process.
#
#     tclsh tests/run.tcl ?-jobs N? FILE ... ?-crossed N FILE ...?
#
# FILE is a test script (*.test, run by the program EMB_FIXTURE) or a test
# program.  Each ends its output with "N passed, N failed" and perhaps
# ", N skipped"; a file that does not counts as one more failure.  So does one
# that takes longer than EMB_TEST_TIMEOUT seconds (default 600): it is killed
# with all processes that it started; and one that ends and leaves a process
# running.  Prints a line for each file, the output of failed ones, their counts
# ("counted: 12 kill points", added up), the end of the output of failed ones
# again, and the sums in the same form.  The files after -crossed are run with another owner of their
# tables, text keys, transactions and interrupts (CROSS, tests/tester.tcl): one
# in N of the pairs of a file and an owner, chosen by SEED of the environment,
# or the clock.  tests/cross.tcl plans them so that each pair of values is met,
# and with N=1 each triple; otherwise the run fails.  TMPDIR of the tests is a
# directory of this run, removed at its end.  Their file names and texts are
# UTF-8, whatever the locale is: a new machine has none.
set ::env(LC_ALL) C.UTF-8
source [file join [file dirname [file normalize [info script]]] cross.tcl]

# item: a file, or a file and its values of CROSS.
proc start {item} {
  global state queue
  lassign $item file values
  set command [list [file normalize $file]]
  if {[file extension $file] eq ".test"} {
    set fixture build/testfixture
    if {[info exists ::env(EMB_FIXTURE)]} {set fixture $::env(EMB_FIXTURE)}
    set command [list [file normalize $fixture] {*}$command]
  }
  set cross [join $values ,]
  if {$cross ne ""} {set command [list env CROSS=$cross {*}$command]}
  set mark [pid].[incr ::marks]
  set ::env(EMB_TEST_MARK) $mark
  set channel [open |[list {*}$command < /dev/null 2>@1] r]
  fconfigure $channel -blocking 0 -translation binary
  set state($channel,file) $file[expr {$cross eq "" ? "" : " ($cross)"}]
  set state($channel,output) ""
  set state($channel,mark) $mark
  set state($channel,start) [clock milliseconds]
  set state($channel,timer) [after $::timeout_ms [list expire $channel]]
  fileevent $channel readable [list receive $channel]
  incr ::running
}

# SIGTERM makes a program of tests/lib/test.c name the test in which it is.
proc expire {channel} {
  append ::state($channel,output) "\nkilled: it took too long\n"
  set pids [lsort -unique [concat [family [pid $channel]] \
                                  [started_by $::state($channel,mark)]]]
  foreach pid $pids {
    append ::state($channel,output) "it ran: [command_of $pid]\n"
  }
  kill $pids TERM
  set ::state($channel,timer) [after 2000 [list kill $pids]]
}

# The shell's own kill: a small system has no program of that name.
proc kill {pids {signal KILL}} {
  foreach pid $pids {catch {exec sh -c "kill -$signal $pid"}}
}

# These processes and all their descendants.  A child left behind would hold
# the channel open.
proc family {pids} {
  foreach file [glob -nocomplain {/proc/[0-9]*/stat}] {
    if {![catch {read_file $file} line] &&
        [regexp {^(\d+) \(.*\) \S (\d+)} $line all pid parent]} {
      lappend children($parent) $pid
    }
  }
  for {set i 0} {$i < [llength $pids]} {incr i} {
    set pid [lindex $pids $i]
    if {[info exists children($pid)]} {lappend pids {*}$children($pid)}
  }
  return $pids
}

# The processes that have a file's mark in their environment, whoever their
# parent is by now.
proc started_by {mark} {
  set pids {}
  foreach file [glob -nocomplain {/proc/[0-9]*/environ}] {
    if {![catch {read_file $file} environment] &&
        "EMB_TEST_MARK=$mark" in [split $environment \0]} {
      lappend pids [file tail [file dirname $file]]
    }
  }
  return $pids
}

proc read_file {path} {
  set channel [open $path rb]
  try {return [read $channel]} finally {close $channel}
}

# "process N: its command line"; empty if it is gone.
proc command_of {pid} {
  if {[catch {read_file /proc/$pid/cmdline} command]} {return ""}
  return "process $pid: [string map {\0 { }} $command]"
}

# What a file left running, as lines of output, and its end.  A process that
# has been killed may need a moment to be gone.
proc end_left {mark} {
  for {set i 0} {[llength [started_by $mark]] && $i < 500} {incr i} {after 10}
  set lines {}
  set pids [started_by $mark]
  foreach pid $pids {
    set command [command_of $pid]
    if {$command ne ""} {lappend lines "left running: $command"}
  }
  kill $pids
  return $lines
}

proc receive {channel} {
  global state
  append state($channel,output) [read $channel]
  if {![eof $channel]} return
  after cancel $state($channel,timer)
  fconfigure $channel -blocking 1
  set bad [catch {close $channel} message]
  report $channel $bad $message
  array unset state $channel,*
  incr ::running -1
  next
}

# Counts the results that one file has printed, and prints its line.
proc report {channel bad message} {
  global state total
  set output [string trimright $state($channel,output)]
  set seconds [expr {([clock milliseconds] - $state($channel,start)) / 1000.0}]
  set line [lindex [split $output \n] end]
  set passed 0; set failed 0; set skipped 0
  set pattern {^([0-9]+) passed, ([0-9]+) failed(?:, ([0-9]+) skipped)?$}
  if {![regexp $pattern $line all passed failed skipped]} {
    set failed 1
    append output "\nit did not run to its end: $message"
  } elseif {$bad && $failed == 0} {
    incr failed
    append output "\nit ended with an error: $message"
  }
  set left [end_left $state($channel,mark)]
  if {[llength $left]} {
    incr failed
    append output \n [join $left \n]
  }
  if {$skipped eq ""} {set skipped 0}
  incr total(passed) $passed
  incr total(failed) $failed
  incr total(skipped) $skipped
  foreach {all n what} [regexp -all -inline -line {^counted: (\d+) (.*)$} \
                          $output] {
    incr ::counts($what) $n
  }
  puts [format "%-40s %s, %.1f s" $state($channel,file) \
    [sums $passed $failed $skipped] $seconds]
  if {$failed || $skipped} {
    foreach line [split $output \n] {puts "    $line"}
  }
  if {$failed} {
    lappend ::failures $state($channel,file) \
      [lrange [split $output \n] end-29 end]
  }
  flush stdout
}

proc sums {passed failed skipped} {
  set text "$passed passed, $failed failed"
  if {$skipped} {append text ", $skipped skipped"}
  return $text
}

# Starts files while there are some and a job is free; ends the run when
# nothing is left.
proc next {} {
  global queue running jobs
  while {$running < $jobs && [llength $queue]} {
    set queue [lassign $queue item]
    if {[catch {start $item} message]} {
      puts "$item: cannot run: $message"
      incr ::total(failed)
    }
  }
  if {$running == 0} {set ::done 1}
}

# The crossed runs of these files.
proc plan_crossed {n files} {
  set seed [expr {[info exists ::env(SEED)] ? $::env(SEED)
                  : [clock microseconds] & 0x7fffffff}]
  set plan [cross::plan $files $n $seed [cross::read_file \
    [file join [file dirname [file normalize [info script]]] crossings.txt]]]
  dict with plan {
    puts "crossed: [llength $runs] runs, $met of $needed $what, SEED=$seed"
    foreach tuple $unmet {puts "crossed: unmet: $tuple"}
    if {[llength $unmet]} {incr ::total(failed)}
  }
  return $runs
}

array set total {passed 0 failed 0 skipped 0}
set failures {}
set jobs [expr {[exec nproc] + 2}] ;# they wait for the disk, or for others
set running 0
set timeout_ms 600000
if {[info exists env(EMB_TEST_TIMEOUT)]} {
  set timeout_ms [expr {$env(EMB_TEST_TIMEOUT) * 1000}]
}
if {[lindex $argv 0] eq "-jobs"} {
  set argv [lassign $argv all jobs]
}
set queue {}
set crossed [lsearch -exact $argv -crossed]
if {$crossed < 0} {set crossed [llength $argv]}
foreach file [lrange $argv 0 $crossed-1] {lappend queue [list $file]}
if {$crossed < [llength $argv]} {
  lappend queue {*}[plan_crossed [lindex $argv $crossed+1] \
                      [lrange $argv $crossed+2 end]]
}
set parent [expr {[info exists env(TMPDIR)] ? $env(TMPDIR) : "/tmp"}]
set env(TMPDIR) [exec mktemp -d [file join [file normalize $parent] \
                   emb-run-XXXXXX]]
# Another user's process, which some tests start, must reach its files.
file attributes $env(TMPDIR) -permissions 0711
set here [file dirname [file normalize [info script]]]
set env(ASAN_OPTIONS) "detect_stack_use_after_return=1"
set env(LSAN_OPTIONS) \
  "suppressions=[file join $here leaks.supp]:print_suppressions=0"
set env(UBSAN_OPTIONS) "print_stacktrace=1"
next
if {!$running} {set done 1}
vwait done
file delete -force $env(TMPDIR)
foreach what [lsort [array names counts]] {puts "counted: $counts($what) $what"}
foreach {file lines} $failures {
  puts "failed: $file"
  foreach line $lines {puts "    $line"}
}
puts [sums $total(passed) $total(failed) $total(skipped)]
exit [expr {$total(failed) > 0 || $total(passed) == 0}]
