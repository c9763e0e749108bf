# wrap.tcl -- the connections of a suite that is crossed.  A part of tester.tcl.
#
# The command of a connection is renamed into ::wrap::handle, and an alias of
# its old name comes here.  Without a value that needs it nothing is wrapped.
#
# transaction  A text that `eval`, `onecolumn` or `exists` runs without a script
#           runs between BEGIN and COMMIT, if no transaction is open and it has
#           no word that is impossible there.  After an error COMMIT too:
#           without BEGIN the statements before it would persist.  Several
#           statements with a function or command that the manual refuses
#           after a write run without.

namespace eval wrap {
  variable transactions 0
  # Of a handle whose last text was followed by a COMMIT, which changes them:
  # errorcode, extended_errcode, changes.
  variable ends
  array set ends {}
  # Words that end or begin a transaction, or are refused in one.
  variable not_in_transaction [join {
    BEGIN SAVEPOINT COMMIT END ROLLBACK RELEASE VACUUM ATTACH DETACH PRAGMA
    emb_gc
  } |]
  # Refused after a write in the same transaction, or acting outside of it.
  variable not_after_write \
    {\memb_(backup|bag_apply|delta|lookup|prefetch|put|rmw|serve|snapshot|write_back|evicted|flush)|\m(\w+)\(\2\)}
  namespace eval handle {}
}

proc wrap::is_needed {} {
  cross::meet {transaction} $tester::cross
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
  set handle [string trimleft $handle :]
  if {[info commands ::wrap::handle::$handle] eq ""} return
  if {[info commands ::$handle] ne ""} {interp alias {} ::$handle {}}
  rename ::wrap::handle::$handle ""
  array unset ends $handle
}

proc wrap::call {handle args} {
  variable ends
  set real ::wrap::handle::$handle
  set method [lindex $args 0]
  set place [lsearch -exact {errorcode - changes} $method]
  if {$place >= 0 && [info exists ends($handle)]} {
    return [lindex $ends($handle) $place]
  }
  if {$method in {eval onecolumn exists transaction close}} {
    array unset ends $handle
  }
  if {$method eq "close"} {
    $real close
    return [forget_alias $handle]
  }
  if {$method in {eval onecolumn exists} && [llength $args] == 2} {
    return [uplevel 1 [list wrap::run $handle $method [lindex $args 1]]]
  }
  uplevel 1 [list $real {*}$args]
}

proc wrap::forget_alias {handle} {
  if {[info commands ::$handle] ne ""} {interp alias {} ::$handle {}}
}

# Runs a text, with the variables of the caller.
proc wrap::run {handle method sql} {
  if {"transaction" in $tester::cross && [may_be_in_transaction $sql] &&
      [sqlite3_get_autocommit $handle]} {
    return [uplevel 1 [list wrap::run_in_transaction $handle $method $sql]]
  }
  uplevel 1 [list ::wrap::handle::$handle $method $sql]
}

proc wrap::may_be_in_transaction {sql} {
  variable not_in_transaction
  variable not_after_write
  if {[regexp -nocase "\\m($not_in_transaction)\\M" $sql]} {return 0}
  expr {![regexp {;.*\S} $sql] || ![regexp -nocase $not_after_write $sql]}
}

proc wrap::run_in_transaction {handle method sql} {
  variable transactions
  variable ends
  set real ::wrap::handle::$handle
  incr transactions
  $real eval BEGIN
  set failed [catch {uplevel 1 [list $real $method $sql]} result options]
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
  if {"transaction" in $tester::cross} {
    count $transactions "texts that ran in a transaction"
  }
}
