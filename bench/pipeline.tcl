# pipeline.tcl -- what a selection of a tenth of the samples takes, against a bare
# SELECT ... ORDER BY of SQLite on the same rows.
#
#     N=10000000 build/testfixture bench/pipeline.tcl
#
# All in one run, on a database in TMPDIR that is made first (110 bytes a sample,
# and room to sort). The ratio is that of the medians of three.

source [file join [file dirname [info script]] .. tests tester.tcl]
source [file join $tester::root tests lib pipeline.tcl]

set n [expr {[info exists ::env(N)] ? $::env(N) : 1000000}]
db eval {PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON}
db eval {SELECT emb_pipeline_create()}
samples $n "(key * 2654435761 >> 8) % 10"
set amount "{\"policy\":\"amount\",\"samples\":$n}"
db eval {INSERT INTO modyn_pipeline(name, samples, trigger_policy, selection_policy, lookback)
           VALUES('p', 'sample', $amount, '{"policy":"random","share":0.1}', 0)}

proc median {script} {
  set times {}
  for {set i 0} {$i < 3} {incr i} {
    set start [clock milliseconds]
    uplevel #0 $script
    lappend times [expr {[clock milliseconds] - $start}]
  }
  lindex [lsort -integer $times] 1
}

# The selection of the trigger that is there, made once more.
proc again {policy} {
  db eval {BEGIN; DELETE FROM modyn_decision; DELETE FROM modyn_trigger; DELETE FROM modyn_selection;
    UPDATE modyn_pipeline SET selection_policy = $policy; SELECT emb_pipeline_run('p'); ROLLBACK}
}
# Every row is sorted and read.
proc bare {order {table modyn_sample_state}} {
  db eval "SELECT count(*) FROM (SELECT sample_key FROM $table WHERE pipeline = 1
                                  ORDER BY $order LIMIT -1 OFFSET 1)"
}

db eval {SELECT emb_pipeline_run('p')}
db eval {INSERT INTO modyn_score(pipeline, sample_key, loss) SELECT 1, key, emb_random(9, key) FROM sample}
puts "$n samples, a tenth of them; milliseconds"
foreach {name order} {random random() balanced {label, random()}} {
  set bare [median "bare {$order}"]
  set ours [median "again {{\"policy\":\"$name\",\"share\":0.1}}"]
  puts [format "%-10s %8d   bare %8d   ratio %.2f" $name $ours $bare [expr {double($ours) / $bare}]]
}
db eval {DELETE FROM modyn_decision; DELETE FROM modyn_trigger; DELETE FROM modyn_selection;
  UPDATE modyn_pipeline SET selection_policy =
    '{"policy":"new_data","downsampling":{"policy":"loss","share":0.1}}';
  SELECT emb_pipeline_run('p')}
set bare [median {bare loss modyn_score}]
set ours [median {db eval {SELECT emb_downsample('p', 0)}}]
puts [format "%-10s %8d   bare %8d   ratio %.2f" loss $ours $bare [expr {double($ours) / $bare}]]
set status [open /proc/self/status]
puts [regexp -inline -line {^VmHWM:.*} [read $status]]
finish_test
