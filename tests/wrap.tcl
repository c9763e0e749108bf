# wrap.tcl -- the connections of a suite that is crossed.  A part of tester.tcl.
#
# The command of a connection is renamed into ::wrap::handle, and an alias of
# its old name comes here.  Without a value that needs it nothing is wrapped.
#
# TEXT      A CREATE VIRTUAL TABLE ... USING emb gets a TEXT PRIMARY KEY: `key`,
#           or the name that an INTEGER PRIMARY KEY has.  Lists of integers
#           become lists of texts: those written in the SQL, and what `keys`
#           returns.  Numbers as keys are converted to texts by emb itself.
#           Where `key` is compared or sorted, its number is.
# TRANSACTION  A text that `eval`, `onecolumn` or `exists` runs without a script
#           runs between BEGIN and COMMIT, if no transaction is open and it has
#           no word that is impossible there.  After an error COMMIT too:
#           without BEGIN the statements before it would persist.  Several
#           statements with a function or command that the manual refuses
#           after a write run without.
# INTERRUPT  About every other statement of a text, outside of transactions, is
#           run with an interrupt at a drawn place (tests/interrupt.c).  It
#           may end with SQLITE_INTERRUPT; then it runs again, without, and
#           the suite must not notice the first.  Not the functions that act
#           at once: what they have done remains.  With TRANSACTION a whole
#           text is interrupted, rolled back and run again.

namespace eval wrap {
  variable tables 0
  variable integers {\[\s*-?\d+(?:\s*,\s*-?\d+)*\s*\]}
  variable transactions 0 tried 0 interrupted 0 state 0
  variable depth 0 ;# texts that run now: one inside another is not interrupted
  # Handles with a progress handler or commit hook of the suite, which a place
  # at a step would replace.
  variable hooks
  array set hooks {}
  # May be run again after an interrupt: the first word, and what acts at once
  # or counts its calls.
  variable repeatable {^\s*(SELECT|INSERT|REPLACE|UPDATE|DELETE|WITH|CREATE|DROP)\M}
  variable not_repeatable [join {
    backup bag_apply delta_ack delta_apply delta_drop delta_export flush_gradients
    gc lookahead lookup prefetch prefetch_synchronize put release rmw apply apply_async serve snapshot
    snapshot_drop snapshot_export snapshot_restore write_back write_back_synchronize
  } |]
  # Of a handle whose last text was followed by a COMMIT, which changes them:
  # errorcode, extended_errcode, changes.
  variable ends
  array set ends {}
  # Words that end or begin a transaction, or are refused in one.
  variable not_in_transaction [join {
    BEGIN SAVEPOINT COMMIT END ROLLBACK RELEASE VACUUM ATTACH DETACH PRAGMA
    emb_gc emb_serve
  } |]
  # Refused after a write in the same transaction, or acting outside of it.
  variable not_after_write \
    {\memb_(backup|bag_apply|delta|lookup|prefetch|put|rmw|apply|serve|snapshot|write_back|evicted|flush)|\m(\w+)\(\2\)}
  namespace eval handle {}
}

proc wrap::is_needed {} {
  cross::meet {text transaction interrupt} $tester::cross
}

proc wrap::wrap {handle} {
  if {![is_needed]} return
  set handle [string trimleft $handle :]
  rename ::$handle ::wrap::handle::$handle
  interp alias {} ::$handle {} wrap::call $handle
}

# Another connection gets the name, or the connection is closed.
proc wrap::forget {handle} {
  variable ends
  variable hooks
  set handle [string trimleft $handle :]
  if {[info commands ::wrap::handle::$handle] eq ""} return
  if {[info commands ::$handle] ne ""} {interp alias {} ::$handle {}}
  rename ::wrap::handle::$handle ""
  array unset ends $handle
  array unset hooks $handle
}

proc wrap::call {handle args} {
  variable ends
  variable hooks
  set real ::wrap::handle::$handle
  set method [lindex $args 0]
  set place [lsearch -exact {errorcode - changes} $method]
  if {$place >= 0 && [info exists ends($handle)]} {
    return [lindex $ends($handle) $place]
  }
  if {$method in {eval onecolumn exists transaction close}} {
    array unset ends $handle
  }
  if {$method in {progress commit_hook} && [llength $args] > 1} {
    set hooks($handle) [expr {[lindex $args 1] ni {0 ""}}]
  }
  if {$method eq "close"} {
    $real close
    return [forget_alias $handle]
  }
  if {"text" in $tester::cross && $method in {eval onecolumn exists}} {
    set place [expr {[lindex $args 1] eq "-withoutnulls" ? 2 : 1}]
    set args [lreplace $args $place $place \
                [uplevel 1 [list wrap::with_texts [lindex $args $place]]]]
  }
  set command [list $real {*}$args]
  if {$method in {eval onecolumn exists} && [llength $args] == 2} {
    set command [list wrap::run $handle $method [lindex $args 1]]
  }
  variable depth
  incr depth
  set code [catch {uplevel 1 $command} result options]
  incr depth -1
  return -options $options $result
}

proc wrap::forget_alias {handle} {
  if {[info commands ::$handle] ne ""} {interp alias {} ::$handle {}}
}

# Runs a text, with the variables of the caller.
proc wrap::run {handle method sql} {
  set real ::wrap::handle::$handle
  if {[sqlite3_get_autocommit $handle]} {
    if {"transaction" in $tester::cross && [may_be_in_transaction $sql]} {
      return [uplevel 1 [list wrap::run_in_transaction $handle $method $sql]]
    }
    if {"interrupt" in $tester::cross} {
      return [uplevel 1 [list wrap::run_each $handle $method $sql]]
    }
  }
  uplevel 1 [list $real $method $sql]
}

# ---- text --------------------------------------------------------------------

# The same SQL for tables with texts as keys.  Called where its variables are: a
# list of texts must not be bound as a BLOB (@name).
proc wrap::with_texts {sql} {
  variable tables
  variable integers
  set done ""
  while {[regexp -nocase -indices \
            {CREATE\s+VIRTUAL\s+TABLE\s+[^;(]+?\s+USING\s+emb\M\s*(\()?} \
            $sql all parenthesis]} {
    incr tables
    set end [lindex $all 1]
    append done [string range $sql 0 $end]
    set sql [string range $sql $end+1 end]
    if {[lindex $parenthesis 0] < 0} {
      append done "(key TEXT PRIMARY KEY)"
      continue
    }
    set end [end_of_arguments $sql]
    set arguments [string range $sql 0 $end-1]
    set sql [string range $sql $end end]
    if {![regexp -nocase {\mPRIMARY\s+KEY\M} $arguments]} {
      append done "key TEXT PRIMARY KEY"
      if {[string trim $arguments] ne ""} {append done ", "}
    }
    append done [regsub -nocase {\mINTEGER(\s+PRIMARY\s+KEY)\M} $arguments \
                   {TEXT\1}]
  }
  append done $sql
  foreach before {
    {\memb_(?:get|peek|found|put|rmw|apply|apply_async|lookup|lookahead|bag|bag_apply|prefetch|write_back|keys)\s*\((?:\s*'[^']*'\s*,)?\s*'}
    {\mINTO\s+\w+\s*\(\s*keys\s*,[^)]*\)\s*(?:VALUES\s*\(|SELECT)\s*'}
    {\m(?:FROM|JOIN|,)\s+\w+\s*\(\s*'}
    {\mkeys\s*=\s*'}
  } {
    set done [quote_lists "${before}($integers)'" $done]
  }
  set done [regsub -all -nocase \
    {(ORDER\s+BY\s+)((?:\w+\.)?key)\M(?!\s*[,*+|-])} $done \
    {\1CAST(\2 AS INTEGER)}]
  set done [regsub -all -nocase \
    {\m((?:\w+\.)?key)\M(?=\s*(?:[<>]=?|BETWEEN\M)\s*[-0-9$:@(])} $done \
    {CAST(\1 AS INTEGER)}]
  foreach {all name} [regexp -all -inline {@(\w+)} $done] {
    if {[uplevel 1 [list info exists $name]] &&
        ![uplevel 1 [list array exists $name]] &&
        [regexp {^\[("|\]$)} [uplevel 1 [list set $name]]]} {
      set done [regsub -all "@$name\\M" $done \$$name]
    }
  }
  return $done
}

# Where the arguments that follow a parenthesis end.
proc wrap::end_of_arguments {sql} {
  set depth 1
  set quoted 0
  for {set i 0} {$i < [string length $sql]} {incr i} {
    set c [string index $sql $i]
    if {$c eq "'"} {
      set quoted [expr {!$quoted}]
    } elseif {!$quoted} {
      if {$c eq "("} {incr depth}
      if {$c eq ")" && [incr depth -1] == 0} {return $i}
    }
  }
  return $i
}

# The list of integers that the pattern contains becomes one of texts.
proc wrap::quote_lists {pattern sql} {
  set done ""
  set from 0
  foreach {all list} [regexp -all -inline -nocase -indices $pattern $sql] {
    lassign $list first last
    append done [string range $sql $from $first-1] \
      [regsub -all -- {-?\d+} [string range $sql $first $last] {"&"}]
    set from [expr {$last + 1}]
  }
  return $done[string range $sql $from end]
}

# ---- interrupt ---------------------------------------------------------------

# Runs the statements of a text one by one.
proc wrap::run_each {handle method sql} {
  set statements [statements $handle $sql]
  if {[llength $statements] == 1} {
    return [uplevel 1 [list wrap::run_twice $handle $method $sql]]
  }
  if {$method ne "eval"} {
    return [uplevel 1 [list ::wrap::handle::$handle $method $sql]]
  }
  set results {}
  foreach statement $statements {
    lappend results {*}[uplevel 1 \
                          [list wrap::run_twice $handle eval $statement]]
  }
  return $results
}

# Runs a statement outside of a transaction, and again if it was interrupted.
proc wrap::run_twice {handle method sql} {
  set real ::wrap::handle::$handle
  if {![sqlite3_get_autocommit $handle] || ![may_be_repeated $handle $sql] ||
      ![arm $handle]} {
    return [uplevel 1 [list $real $method $sql]]
  }
  set failed [catch {uplevel 1 [list $real $method $sql]} result options]
  if {[interrupted $handle $failed]} {
    return [uplevel 1 [list $real $method $sql]]
  }
  return -options $options $result
}

# The statements of a text; a trigger is one, and so is a text with a semicolon
# in parentheses.
proc wrap::statements {handle sql} {
  set statements {}
  set statement ""
  foreach part [split $sql \;] {
    append statement $part
    if {[::wrap::handle::$handle complete $statement\;] &&
        [regexp -all {\(} $statement] <= [regexp -all {\)} $statement]} {
      lappend statements $statement\;
      set statement ""
    } else {
      append statement \;
    }
  }
  set last [string trimright $statement " \n\t;"]
  if {$last ne ""} {lappend statements $last}
  lmap statement $statements {
    if {[string trim $statement " \n\t;"] eq ""} continue
    set statement
  }
}

proc wrap::may_be_repeated {handle sql} {
  variable repeatable
  variable not_repeatable
  foreach statement [statements $handle $sql] {
    if {![regexp -nocase $repeatable $statement] ||
        [regexp -nocase "\\memb_($not_repeatable)\\M" $statement]} {
      return 0
    }
  }
  return 1
}

# Prepares an interrupt for about every other call.
proc wrap::arm {handle} {
  variable hooks
  variable tried
  variable depth
  if {$depth > 1 || [random 2]} {return 0}
  set place [lindex {poll step} [random 2]]
  if {[info exists hooks($handle)] && $hooks($handle)} {set place poll}
  interrupt_arm $handle $place [random [expr {1 << [random 13]}]]
  incr tried
}

# Ends the preparation.  Did the statement end because of the interrupt?
proc wrap::interrupted {handle failed} {
  variable interrupted
  set sent [interrupt_disarm]
  if {!$sent || !$failed ||
      ([::wrap::handle::$handle errorcode] & 0xff) != 9} {return 0}
  incr interrupted
}

# Numbers that are not those of the suite, from the same seed.
proc wrap::random {n} {
  variable state
  set state [expr {($state * 6364136223846793005 + 1442695040888963407)
                   & 0xffffffffffffffff}]
  expr {($state >> 33) % $n}
}

proc wrap::start {} {
  variable state
  if {"interrupt" ni $tester::cross} return
  set state [seed]
  set ::env(SEED) $state ;# for the processes of the suite
  random 2
}

proc wrap::may_be_in_transaction {sql} {
  variable not_in_transaction
  variable not_after_write
  if {[regexp -nocase "\\m($not_in_transaction)\\M" $sql]} {return 0}
  # A new text cannot be added at once within a transaction.
  expr {("text" ni $tester::cross && ![regexp {;.*\S} $sql]) ||
        ![regexp -nocase $not_after_write $sql]}
}

proc wrap::run_in_transaction {handle method sql} {
  variable transactions
  variable ends
  set real ::wrap::handle::$handle
  incr transactions
  $real eval BEGIN
  set armed [expr {"interrupt" in $tester::cross &&
                   [may_be_repeated $handle $sql] && [arm $handle]}]
  set failed [catch {uplevel 1 [list $real $method $sql]} result options]
  if {$armed && [interrupted $handle $failed]} {
    if {![sqlite3_get_autocommit $handle]} {$real eval ROLLBACK}
    $real eval BEGIN
    set failed [catch {uplevel 1 [list $real $method $sql]} result options]
  }
  set end [end_of $handle]
  if {![sqlite3_get_autocommit $handle] &&
      [catch {$real eval COMMIT} text commit_options]} {
    if {!$failed} {
      set end [end_of $handle]
      lassign [list $text $commit_options] result options
    }
    catch {$real eval ROLLBACK}
  }
  set ends($handle) $end
  return -options $options $result
}

proc wrap::end_of {handle} {
  set real ::wrap::handle::$handle
  list [$real errorcode] [plain_extended_errcode $handle] [$real changes]
}

# The code of a call, although a COMMIT came after it.
rename extended_errcode wrap::plain_extended_errcode
proc extended_errcode {handle} {
  set name [string trimleft $handle :]
  if {[info exists wrap::ends($name)]} {return [lindex $wrap::ends($name) 1]}
  wrap::plain_extended_errcode $handle
}

proc wrap::end {} {
  variable transactions
  variable tables
  variable tried
  variable interrupted
  if {"transaction" in $tester::cross} {
    count $transactions "texts that ran in a transaction"
  }
  if {"text" in $tester::cross} {count $tables "tables with text keys"}
  if {"interrupt" in $tester::cross} {
    count $interrupted "statements that were interrupted and run again"
    count [expr {$tried - $interrupted}] "statements that ended before"
  }
}
