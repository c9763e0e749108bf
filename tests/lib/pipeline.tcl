# pipeline.tcl -- pipelines for the tests of sql/examples/modyn/schema.sql and
# ext/data/pipeline/.
#
#   modyn_reset              an empty database with the schema, without a prefix
#   samples N ?LABEL?        table sample: keys 1 to N, timestamp = key * 10, and
#                            a label that an SQL expression of key gives
#   pipeline NAME TRIGGER ?SELECTION? ?COLUMN VALUE ...?
#                            a row of pipeline, on that table
#   run_pipeline NAME        all triggers that exist now
#   chosen NAME TRIGGER      its keys, in their order

proc modyn_schema {} {
  set channel [open [file join $tester::root sql examples modyn schema.sql]]
  set text [read $channel]
  close $channel
  return $text
}

proc modyn_reset {} {
  reset_db
  db eval {PRAGMA synchronous = OFF} ;# a killed process loses nothing by it
  db eval [modyn_schema]
}

proc samples {n {label "key % 3"} {from 1}} {
  db eval "
    CREATE TABLE IF NOT EXISTS sample(key INTEGER PRIMARY KEY, timestamp, label);
    INSERT INTO sample
      WITH RECURSIVE k(key) AS (SELECT $from UNION ALL SELECT key + 1 FROM k WHERE key < $n)
      SELECT key, key * 10, $label FROM k WHERE key <= $n"
}

proc pipeline {name trigger {selection {{"policy":"new_data","tail":0}}} args} {
  set names {name samples trigger_policy selection_policy}
  set values [list $name sample $trigger $selection]
  foreach {column value} $args {
    if {$column eq "samples"} {
      lset values 1 $value
    } else {
      lappend names $column
      lappend values $value
    }
  }
  set list [join [lmap value $values {string cat ' [string map {' ''} $value] '}] ,]
  db eval "INSERT INTO pipeline([join $names ,]) VALUES($list)"
}

proc run_pipeline {name} {
  set triggers {}
  while {[set trigger [db onecolumn {SELECT emb_pipeline_run($name)}]] ne ""} {
    lappend triggers $trigger
  }
  return $triggers
}

proc chosen {name trigger} {
  db eval {SELECT key FROM emb_selected($name, CAST($trigger AS INTEGER))}
}

# First and last position, trigger by trigger.
proc ranges {name} {
  db eval {SELECT first_position, last_position FROM trigger JOIN pipeline USING (pipeline)
            WHERE name = $name ORDER BY trigger}
}
