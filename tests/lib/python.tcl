# python.tcl -- runs Python programs from the tests.
#
#   python_missing             why Python cannot be used here, "" if it can
#   python ?-status? CODE ...  runs a program with these arguments and returns
#                              what it printed, also to stderr; a program that
#                              fails is an error
#   do_python_test NAME CODE EXPECTED
#                              compares what it printed; trailing space and
#                              the indentation of CODE do not count
#
# The prelude below precedes each program.  Python must be Debian's: others are
# built without sqlite3's extension loading.  Where emb.so was
# built with a sanitizer, the sanitizer's library is loaded first.

namespace eval python {
  variable program /usr/bin/python3
  variable missing unknown
  variable environment {}
  variable prelude {
import array, os, sqlite3, struct, sys, threading, time

def load(db):
    db.enable_load_extension(True)
    db.load_extension(os.environ["EMB_SO"])
    db.enable_load_extension(False)
    return db

def connect(path="test.db", **options):
    options.setdefault("isolation_level", None)
    return load(sqlite3.connect(path, **options))

def vec(*floats):
    return array.array("f", floats)

def unvec(blob):
    return array.array("f", blob).tolist()

def keys(*integers):
    return array.array("q", integers)

def error_of(call, *arguments):
    try:
        call(*arguments)
    except sqlite3.Error as error:
        return type(error).__name__ + ": " + str(error)
    return "no error"
}
}

proc python_missing {} {
  variable python::missing
  if {$missing ne "unknown"} {return $missing}
  set missing ""
  if {![file executable $python::program]} {
    set missing "there is no $python::program"
    return $missing
  }
  catch {exec ldd $tester::so} libraries
  if {[regexp {(/\S*lib[at]san\S*)} $libraries all library]} {
    set python::environment [list env LD_PRELOAD=$library \
      ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=report_bugs=0]
  }
  if {[catch {python {connect(":memory:").close()}} text]} {
    set missing "$python::program cannot load the extension:\
                 [lindex [split [string trim $text] \n] end]"
  }
  return $missing
}

proc python {code args} {
  set file [file join $tester::dir python-[pid].py]
  set f [open $file w]
  fconfigure $f -encoding utf-8
  puts $f $python::prelude[python::dedent $code]
  close $f
  set ::env(EMB_SO) $tester::so
  exec {*}$python::environment $python::program $file {*}$args 2>@1
}

proc do_python_test {name code expected} {
  do_test $name [list python $code] [string trim [python::dedent $expected]]
}

# Removes the indentation that all lines share.
proc python::dedent {code} {
  set indent ""
  regexp -line {^( *)\S} $code all indent
  regsub -all -line "^$indent" $code "" code
  return $code
}
