# jobs.sh -- the jobs of run.sh: a line for each run of a program.

if [ "${BANK_SHORT:-}" ]; then
  accuracy_jobs() {
    echo regularise --from none --epochs 2
    echo regularise --from bank --epochs 2
    echo mining --labels mined --epochs 3 --share 5
    echo agreement --rounds 2 --steps 50
    echo retrieve --negatives 64 --steps 40
  }
  maker_jobs() {
    echo regularise --from bank --refresh maker --epochs 1
  }
  time_jobs() {
    echo steps --rounds 1
    echo retrieve_steps --rounds 1
  }
else
  accuracy_jobs() {
    local seed n
    echo regularise --seed 1 --from trainer
    echo retrieve --seed 1 --negatives 256 --from trainer
    for seed in 1 2 3; do
      for n in 4096 1024 256 64 16; do
        echo retrieve --seed $seed --negatives $n
      done
      echo agreement --seed $seed --labels inferred
      echo agreement --seed $seed --labels few
      echo mining --seed $seed --labels mined
      echo mining --seed $seed --labels given
    done
    echo mining --seed 1 --labels right
    for seed in 1 2 3 4 5; do
      echo regularise --seed $seed --from bank
      echo regularise --seed $seed --from none
    done
  }
  maker_jobs() {
    echo regularise --from bank --refresh maker
    echo mining --by maker
  }
  time_jobs() {
    echo steps
    echo retrieve_steps
  }
fi
