# tester.tcl -- the frame of the Tcl tests, in the manner of SQLite's own.
#
# A test file begins and ends so:
#
#     source [file join [file dirname [info script]] .. tester.tcl]
#     set testprefix rows
#     do_execsql_test 1.1 {SELECT 1, 'a'} {1 a}
#     finish_test
#
# RUN       build/testfixture tests/sql/rows.test, or all by tests/run.tcl.
#           EMB_SO names the extension (default build/emb.so).
# FILES     The test runs in its own new directory below TMPDIR, which
#           finish_test removes; it touches no file outside.  The database of
#           `db` is test.db in it.
# OPENING   [sqlite3 handle file] loads the extension; [sqlite3_plain] is
#           SQLite's own.  finish_test closes all handles.
# RANDOM    [seed] gives a start number: SEED in the environment, or the
#           clock.  It is printed when a test of the file fails.
# AMOUNT    [rounds n] is n times LONG of the environment, divided by SHARE:
#           for a second pass, under a sanitizer.
# CROSS     in the environment: values of which any may be combined, separated by
#           commas.  "process" or "copy": another process, or another copy of
#           the library in this one, owns the tables that the test opens
#           (tests/owner.c).  "text", "transaction", "interrupt": see
#           tests/wrap.tcl.
#           tests/crossings.txt lists the differences.  A line of it without a
#           difference is a failure, too, where a value is run alone.
# OUTPUT    Failures, and as the last line "N passed, N failed" (and
#           ", N skipped").  Exit status 1 when a test failed.

package require sqlite3

namespace eval tester {
  variable passed 0 failed 0 skipped 0
  variable seed "" handles {} cross {} differences {}
  variable script [file normalize [info script]]
  variable root [file dirname [file dirname $script]]
  variable so [file join $root build emb.so]
  variable dir ""
  if {[info exists ::env(EMB_SO)]} {
    set so [file normalize $::env(EMB_SO)]
    set ::env(EMB_SO) $so ;# for other processes, which start elsewhere
  }
}
set testprefix [file rootname [file tail $argv0]]
source [file join [file dirname $tester::script] cross.tcl]
source [file join [file dirname $tester::script] wrap.tcl]
if {[info exists env(CROSS)]} {set tester::cross [cross::parse $env(CROSS)]}

proc rounds {n} {
  foreach name {LONG SHARE} {
    set $name [expr {[info exists ::env($name)] ? $::env($name) : 1}]
  }
  expr {max(1, $n * $LONG / $SHARE)}
}

# The extension needs a sanitizer's library, so that no other program loads it.
proc tester::is_sanitized {} {
  set channel [open $tester::so rb]
  set library [read $channel]
  close $channel
  regexp {__(asan|tsan)_init} $library
}

# ---- tests -------------------------------------------------------------------

# Runs a script and compares its result.  expected is the text, or a regular
# expression between slashes: /error .*/ must match, ~/error .*/ must not.
proc do_test {name script expected} {
  set name [tester::full_name $name]
  if {[catch {uplevel #0 $script} result options]} {
    tester::fail $name "error: [dict get $options -errorinfo]"
  } elseif {[tester::matches $result $expected]} {
    incr tester::passed
  } else {
    tester::fail $name "expected: \[$expected\]\n     got: \[$result\]"
  }
}

# do_execsql_test ?-db HANDLE? NAME SQL ?EXPECTED?
# Runs SQL and compares the list of all columns of all rows.
proc do_execsql_test {args} {
  lassign [tester::take_db $args] db name sql expected
  if {![regexp {^~?/} $expected]} {set expected [list {*}$expected]}
  uplevel 1 [list do_test $name [list execsql $sql $db] $expected]
}

# do_catchsql_test ?-db HANDLE? NAME SQL EXPECTED
# The same for SQL that may fail: EXPECTED is {0 ROWS} or {1 MESSAGE}.
proc do_catchsql_test {args} {
  lassign [tester::take_db $args] db name sql expected
  uplevel 1 [list do_test $name [list catchsql $sql $db] $expected]
}

# do_errcode_test ?-db HANDLE? NAME SQL CODE MESSAGE
# SQL that must fail, with this extended result code, a number.
proc do_errcode_test {args} {
  lassign [tester::take_db $args] db name sql code message
  uplevel 1 [list do_test $name \
    "lassign \[[list catchsql $sql $db]\] failed text
     list \[[list $db errorcode]\] \$text" [list $code $message]]
}

proc execsql {sql {db db}} {
  uplevel #0 [list $db eval $sql]
}

proc catchsql {sql {db db}} {
  set rc [catch {uplevel #0 [list $db eval $sql]} result]
  list $rc $result
}

# Counts for tests/run.tcl and tests/soak.sh to add up: count 12 "kill points"
proc count {n what} {
  puts "counted: $n $what"
}

# Counts a test that this machine cannot run.
proc skip_test {name reason} {
  puts "[tester::full_name $name]: skipped: $reason"
  incr tester::skipped
}

proc seed {} {
  if {$tester::seed eq ""} {
    set tester::seed [expr {[info exists ::env(SEED)] ? $::env(SEED)
                            : [clock microseconds] & 0x7fffffff}]
    expr {srand($tester::seed % 2147483646 + 1)}
  }
  return $tester::seed
}

# An integer in 0 .. n-1 from the test's seed.
proc random {n} {
  seed
  expr {int(rand() * $n)}
}

proc finish_test {} {
  tester::close_all
  tester::end_crossing
  cd $tester::root
  file delete -force $tester::dir
  set total "$tester::passed passed, $tester::failed failed"
  if {$tester::skipped} {append total ", $tester::skipped skipped"}
  puts $total
  exit [expr {$tester::failed > 0}]
}

# ---- databases ---------------------------------------------------------------

rename sqlite3 sqlite3_plain

# Opens a database with the extension loaded.  A recent SQLite reads the
# schema to prepare the first SELECT, whatever it is, so this SELECT must wait
# while another process commits.
proc sqlite3 {args} {
  if {[llength $args] == 0 || [string match -* [lindex $args 0]]} {
    return [sqlite3_plain {*}$args]
  }
  set handle [lindex $args 0]
  wrap::forget $handle
  uplevel #0 [list sqlite3_plain {*}$args]
  lappend tester::handles $handle
  uplevel #0 [list $handle timeout 30000]
  load_emb $handle
  uplevel #0 [list $handle timeout 0]
  wrap::wrap $handle
}

proc load_emb {handle {entry sqlite3_emb_init}} {
  uplevel #0 [list $handle enable_load_extension 1]
  uplevel #0 [list $handle function tester_so {return $tester::so}]
  uplevel #0 [list $handle eval "SELECT load_extension(tester_so(), '$entry')"]
}

# Can the library also choose training data?  Not with make OMIT_DATA=1.
proc has_data {} {
  sqlite3 probe :memory:
  load_emb probe sqlite3_emb_nofile_init
  set there [probe eval {SELECT count(*) FROM pragma_function_list WHERE name = 'emb_random'}]
  probe close
  return $there
}

# Closes `db` and opens it again on test.db.
proc reopen_db {} {
  catch {db close}
  sqlite3 db test.db
}

# The same on an empty database.
proc reset_db {} {
  catch {db close}
  forcedelete test.db test.db-journal test.db-wal test.db-shm test.db-emb
  sqlite3 db test.db
}

proc forcedelete {args} {
  foreach path $args {file delete -force $path}
}

# ---- vectors and keys --------------------------------------------------------

# Bind the results with @name, not $name, so that they stay BLOBs.

proc vec {floats} {binary format r* $floats}

proc unvec {blob} {
  binary scan $blob r* floats
  return $floats
}

# A list of keys as emb_get and others take it.
proc keys {integers} {
  if {"text" in $tester::cross} {
    return \[[join [lmap key $integers {string cat \" $key \"}] ,]\]
  }
  binary format w* $integers
}

proc unkeys {blob} {
  binary scan $blob w* integers
  return $integers
}

# ---- other processes ---------------------------------------------------------

# A second process of this program with tester.tcl, its own `db` not yet open:
#     set p [launch_process]
#     process_eval $p {sqlite3 db test.db; execsql {...}}
#     kill_process $p   (immediately, as by SIGKILL)   or   close_process $p
proc launch_process {} {
  set p [open |[list [info nameofexecutable] $tester::script -child \
                 2>@stderr] r+]
  fconfigure $p -buffering line -encoding utf-8
  process_eval $p [list cd [pwd]]
  return $p
}

# Runs a script there; returns its result, or its error with its stack there.
proc process_eval {p script} {
  process_start $p $script
  process_result $p
}

# The two halves of process_eval.
proc process_start {p script} {
  puts $p [list $script]
}

proc process_result {p} {
  lassign [tester::read_list $p] code result trace
  if {$code == 1} {return -code error -errorinfo $trace $result}
  return -code $code $result
}

# The text of a wait for other connections, without numbers and time.  The
# process that owns a table does not number its own connections; another owner
# numbers all.
proc plain_wait {text} {
  set text [regsub -all {for [\d.]+ s} [regsub -all {process \d+} $text {process N}] {for S s}]
  set text [regsub -all {connection \d+} $text {connection N}]
  if {[tester::owner] ne ""} {
    set text [string map {{connection N of} {a connection of}} $text]
  }
  return $text
}

proc close_process {p} {
  process_start $p exit
  catch {close $p}
}

# By the shell's own kill: a small system has no program of that name.
proc send_signal {signal pid} {
  exec sh -c "kill -$signal $pid"
}

proc kill_process {p} {
  send_signal KILL [pid $p]
  catch {close $p}
}

# ---- inside ------------------------------------------------------------------

proc tester::full_name {name} {
  if {$::testprefix eq "" || [string match $::testprefix-* $name]} {
    return $name
  }
  return $::testprefix-$name
}

proc tester::take_db {arguments} {
  if {[lindex $arguments 0] eq "-db"} {
    return [lrange $arguments 1 end]
  }
  return [list db {*}$arguments]
}

proc tester::matches {result expected} {
  if {[regexp {^/(.*)/$} $expected all pattern]} {
    return [regexp -- $pattern $result]
  }
  if {[regexp {^~/(.*)/$} $expected all pattern]} {
    return [expr {![regexp -- $pattern $result]}]
  }
  return [expr {$result eq $expected}]
}

proc tester::fail {name text} {
  variable failed
  variable seed
  if {[differs $name]} {
    if {[info exists ::env(TRACE)]} {puts "$name: differs\n$text"}
    return
  }
  incr failed
  set share [expr {[info exists ::env(SHARE)] ? " SHARE=$::env(SHARE)" : ""}]
  puts "$name: FAILED[expr {$seed eq "" ? "" : " (SEED=$seed$share)"}]"
  puts $text
}

proc tester::close_all {} {
  variable handles
  foreach handle $handles {catch {uplevel #0 [list $handle close]}}
  set handles {}
}

# Reads lines until they are a complete list.
proc tester::read_list {channel} {
  set text ""
  while {[gets $channel line] >= 0} {
    append text $line
    if {[info complete $text]} {return $text}
    append text \n
  }
  error "the other process is gone"
}

# The other end of process_eval.
proc tester::serve {} {
  fconfigure stdin -encoding utf-8
  fconfigure stdout -encoding utf-8 -buffering line
  while {![catch {read_list stdin} text]} {
    set code [catch {uplevel #0 [lindex $text 0]} result]
    puts [list $code $result [expr {$code == 1 ? $::errorInfo : ""}]]
  }
  close_all
  exit
}

# ---- crossing ----------------------------------------------------------------

# The other owner of the tables: "process", "copy" or "".
proc tester::owner {} {
  variable cross
  foreach value $cross {
    if {$value in {process copy}} {return $value}
  }
}

proc tester::start_crossing {} {
  variable cross
  variable differences
  variable script
  variable so
  set file [file join [file dirname $script] crossings.txt]
  foreach {suite pattern values always reason} [cross::read_file $file] {
    if {$suite ne [file rootname [file tail $::argv0]] ||
        ![cross::meet $values $cross]} continue
    if {$pattern eq "*"} {
      puts "not run with CROSS=[join $cross ,]: $reason"
      puts "0 passed, 0 failed, 1 skipped"
      exit 0
    }
    lappend differences $pattern $always $reason
  }
  wrap::start
  if {[owner] ne ""} {owner_start [owner] $so}
}

# Counts the failure of a test that is listed.
proc tester::differs {name} {
  variable differences
  variable different
  foreach {pattern always reason} $differences {
    if {[string match $pattern [short_name $name]]} {
      incr different($pattern)
      return 1
    }
  }
  return 0
}

# A test's name without the suite's.
proc tester::short_name {name} {
  if {[string match $::testprefix-* $name]} {
    return [string range $name [string length $::testprefix]+1 end]
  }
  return $name
}

# Prints what the crossing did.  Of a value that is run alone each line must
# have its difference, and the other owner must own something: in a combination
# one value may hide the other.
proc tester::end_crossing {} {
  variable cross
  variable differences
  variable different
  variable failed
  if {$cross eq ""} return
  if {[llength $cross] == 1} {
    foreach {pattern always reason} $differences {
      if {$always && ![info exists different($pattern)]} {
        puts "crossings.txt: nothing is different any more: $pattern ($reason)"
        incr failed
      }
    }
  }
  count [tcl::mathop::+ 0 {*}[dict values [array get different]]] \
    "tests that are different with [join $cross ,]"
  wrap::end
  if {[owner] eq ""} return
  lassign [owner_count] owned kept
  set whose [dict get {process "another process" copy "another copy"} [owner]]
  count $owned "stores that $whose owned"
  count $kept "stores that it could not own"
  if {$owned == 0 && [llength $cross] == 1} {
    puts "$whose owned nothing: say why in crossings.txt"
    incr failed
  }
}

proc tester::start {} {
  variable dir
  variable cross
  if {$cross ne ""} start_crossing
  set parent [expr {[info exists ::env(TMPDIR)] ? $::env(TMPDIR) : "/tmp"}]
  set dir [exec mktemp -d [file join [file normalize $parent] \
             emb-[file rootname [file tail $::argv0]]-XXXXXX]]
  cd $dir
  reset_db
}

if {[lindex $argv 0] eq "-child"} tester::serve else tester::start
