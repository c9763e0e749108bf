# make.tcl -- writes the golden stores of the present format.
#
#     make && build/testfixture tests/golden/make.tcl
#     build/testfixture tests/golden/make.tcl deletes
#
# Makes tests/golden/format-N, N as in engine/storage/ckpt/manifest.h, or with
# an argument format-N-deletes, whose log has a page full of deleted keys and
# another page after it, both behind the last checkpoint.  stores.tar.gz holds
# closed.db, which was closed, and killed.db, whose files were copied while it
# was open with a commit behind its last checkpoint; expected.txt lists the
# rows that tests/sql/golden.test must find in either.  From format 2 on items
# has an optimizer, which has made one step with the keys 20 to 29 and 41 to
# 45 and two with 30 to 40.  From format 3 on it tracks: key 300 was written
# at 5000 and 6000, key 301 at 7000, and key 302, of slot 5, has expired by
# the time of key 303, at 9000.  From format 4 on the metric of items is
# cosine.  Existing files are not touched: a golden store is written once, by
# the version whose format it shows.  The expected values are computed here,
# not read back.

source [file join [file dirname [info script]] .. tester.tcl]

proc format_number {} {
  set f [open [file join $tester::root engine storage ckpt manifest.h]]
  regexp {MANIFEST_FORMAT (\d+)} [read $f] all number
  close $f
  return $number
}

# Whole numbers and quarters, which float16 holds exactly.
proc vector {key dim turn} {
  set v {}
  for {set i 0} {$i < $dim} {incr i} {
    lappend v [expr {(abs($key) % 97) * 2 + $turn * 0.25 - $i}]
  }
  return $v
}

proc put {table dim keys turn} {
  foreach key $keys {
    set v [vector $key $dim $turn]
    set ::expected($table,$key) $v
    set json "\[[join $v ,]\]"
    db eval "INSERT OR REPLACE INTO $table VALUES(\$key, \$json)"
  }
}

proc put_at {key time} {
  set v [vector $key 16 1]
  set ::expected(items,$key) $v
  set json "\[[join $v ,]\]"
  db eval {INSERT OR REPLACE INTO items(key, vector, updated_at)
             VALUES($key, $json, $time)}
}

proc remove {table keys} {
  foreach key $keys {
    unset ::expected($table,$key)
    db eval "DELETE FROM $table WHERE key = \$key"
  }
}

# Gradients of 1 for an optimizer with momentum 0.5 and a learning rate of 1.
proc learn {table dim keys} {
  set ones "\[[join [lrepeat $dim 1] ,]\]"
  foreach key $keys {
    set v [expr {[info exists ::velocity($key)] ? $::velocity($key) * 0.5 + 1 : 1}]
    set ::velocity($key) $v
    set ::expected($table,$key) [lmap x $::expected($table,$key) {expr {$x - $v}}]
    db eval "UPDATE $table SET gradient = \$ones WHERE key = \$key"
  }
}

proc numbers {from to} {
  set list {}
  for {set i $from} {$i <= $to} {incr i} {lappend list $i}
  return $list
}

proc write_before {} {
  db eval {
    CREATE VIRTUAL TABLE items USING emb(
      vector FLOAT[16] metric=cosine, optimizer='momentum(lr=1, momentum=0.5)',
      track=data, ttl='30d, 5:1h', admission='bloom(n=2)');
    CREATE VIRTUAL TABLE halves USING emb(vector FLOAT16[5], staleness=2);
    CREATE TABLE plain(key INTEGER PRIMARY KEY, name);
    BEGIN;
  }
  put items 16 [numbers -50 200] 1
  put items 16 {9223372036854775807 -9223372036854775808} 1
  put halves 5 [numbers 0 99] 1
  db eval {INSERT INTO plain SELECT key, 'row ' || key FROM items; COMMIT}
  remove items [numbers 10 19]
  put items 16 [numbers 50 80] 2
  learn items 16 [numbers 20 40]
  put_at 300 5000
  put_at 301 7000
  put_at [db onecolumn {SELECT emb_slot_key(5, 302)}] 5000
  db eval {INSERT INTO items(items) VALUES('checkpoint')}
  db eval {INSERT INTO halves(halves) VALUES('checkpoint')}
}

# Savepoints that were rolled back, deletions, and a rollback.
proc write_after {} {
  db eval {BEGIN}
  put items 16 [numbers 100 130] 3
  learn items 16 [numbers 30 45]
  db eval {SAVEPOINT s}
  set kept [array get ::expected]
  put items 16 [numbers 120 140] 4
  put halves 5 [numbers 50 60] 4
  db eval {ROLLBACK TO s}
  array unset ::expected
  array set ::expected $kept
  remove items [numbers 150 159]
  remove halves {0 1 2}
  db eval {COMMIT; BEGIN}
  set kept [array get ::expected]
  put items 16 [numbers 160 170] 5
  db eval {ROLLBACK}
  array unset ::expected
  array set ::expected $kept
  put halves 5 [numbers 90 95] 6
  put_at 303 9000
  db eval {INSERT INTO items(items) VALUES('expire')}
  unset ::expected(items,[db onecolumn {SELECT emb_slot_key(5, 302)}])
  put_at 300 6000
}

# A page of 4096 bytes holds 510 keys.
proc write_deletes {} {
  db eval BEGIN
  put halves 5 [numbers 1000 1700] 1
  db eval {COMMIT; INSERT INTO halves(halves) VALUES('checkpoint'); BEGIN}
  remove halves [numbers 1050 1650]
  put halves 5 [numbers 1100 1110] 7
  db eval {COMMIT}
}

set kind [lindex $argv 0]
set to format-[format_number][expr {$kind eq "" ? "" : "-$kind"}]
set to [file join $tester::root tests golden $to]
if {[file exists $to]} {
  puts "$to is there already"
  finish_test
}
db close
file delete -force test.db test.db-emb
sqlite3 db closed.db
write_before
write_after
if {$kind eq "deletes"} write_deletes
foreach file {closed.db closed.db-emb} {
  exec cp -r $file [string map {closed killed} $file]
}
file delete {*}[glob -nocomplain killed.db-emb/*/socket] ;# no part of a store
db close
file mkdir $to
exec tar -czf [file join $to stores.tar.gz] --owner=0 --group=0 --sort=name \
  closed.db closed.db-emb killed.db killed.db-emb
set f [open [file join $to expected.txt] w]
foreach name [lsort -dictionary [array names expected]] {
  lassign [split $name ,] table key
  puts $f "$table $key $expected($name)"
}
close $f
puts "wrote $to"
finish_test
