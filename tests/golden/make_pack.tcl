# make_pack.tcl -- writes golden files of rows of the present format.
#
#     make && build/testfixture tests/golden/make_pack.tcl
#
# Makes tests/golden/pack-N, N as in engine/storage/pack/pack.h: whole.emb is
# a snapshot of 60 rows with optimizer state, increment.emb holds the changes
# until the next snapshot, and float16.emb, int8.emb and int4.emb are the
# first one quantised.  And tests/golden/texts-N: files of a table with text
# keys, whole.emb, increment.emb and delta.emb.
#
# tests/sql/golden.test knows their content.  A golden file is written once,
# by the version whose format it shows; existing files are not touched.

source [file join [file dirname [info script]] .. tester.tcl]

set f [open [file join $tester::root engine storage pack pack.h]]
set text [read $f]
close $f
regexp {PACK_FORMAT (\d+)} $text all number
regexp {PACK_FORMAT_TEXTS (\d+)} $text all texts_number

# A new directory; "": it exists already.
proc make_directory {name} {
  set to [file join $tester::root tests golden $name]
  if {[file exists $to]} {
    puts "$to is there already"
    return ""
  }
  file mkdir $to
  puts "making $to"
  return $to
}

set to [make_directory texts-$texts_number]
if {$to ne ""} {
  set whole [file join $to whole.emb]
  set increment [file join $to increment.emb]
  set delta [file join $to delta.emb]
  db eval {
    CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, vector FLOAT[8],
      optimizer='adagrad(lr=0.5)', track='wall');
    INSERT INTO words(word, vector, updated_at) VALUES
      ('', '[0,0,0,0,0,0,0,0]', 1000), ('Zürich', '[1,1,1,1,1,1,1,1]', 1001),
      ('zero' || char(0) || 'byte', '[2,2,2,2,2,2,2,2]', 1002);
    WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 20)
    INSERT INTO words(word, vector, updated_at)
      SELECT replace(printf('%.*c', k * k * k, 'x'), 'x', 'word ' || k || ' '),
             '[' || k || ',0,0,0,0,0,0,0]', 2000 + k FROM n;
    SELECT emb_snapshot('words', 'one');
    SELECT emb_snapshot_export('words', 'one', $whole);
    DELETE FROM words WHERE word = 'Zürich';
    INSERT INTO words(word, vector, updated_at)
      VALUES('new', '[9,9,9,9,9,9,9,9]', 3000);
    SELECT emb_snapshot('words', 'two');
    SELECT emb_snapshot_export('words', 'two', $increment, 'base=one');
    SELECT emb_delta_export('words', 'c', $delta);
    DROP TABLE words;
  }
}

set to [make_directory pack-$number]
if {$to eq ""} finish_test

db eval {
  CREATE VIRTUAL TABLE items USING emb(vector FLOAT[8], half FLOAT16[3],
    optimizer='adagrad(lr=0.5)', track='wall');
  WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 60)
  INSERT INTO items(key, vector, half, updated_at)
    SELECT k, '[' || k || ',0.25,0.5,0.75,1,1.25,1.5,' || -k || ']',
           '[' || (k / 2.0) || ',-1,8]', 1000 + k FROM n;
  UPDATE items SET gradient = '[3,0,0,0,0,0,0,0,0,0,0]', updated_at = 2000
   WHERE key = 7;
  SELECT emb_snapshot('items', 'one');
  UPDATE items SET half = '[100,100,100]', updated_at = 3000 WHERE key <= 5;
  DELETE FROM items WHERE key > 50;
  INSERT INTO items(key, vector, half, updated_at)
    VALUES (-9, '[9,9,9,9,9,9,9,9]', '[9,9,9]', 4000);
  SELECT emb_snapshot('items', 'two');
}
foreach {name snapshot options} {
  whole one {level=3}
  increment two {base=one}
  float16 one {quantize=float16,state=0}
  int8 one {quantize=int8,index=0}
  int4 one {quantize=int4,level=0}
} {
  set path [file join $to $name.emb]
  db eval {SELECT emb_snapshot_export('items', $snapshot, $path, $options)}
}
finish_test
