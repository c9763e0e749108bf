# jobs.sh -- what run.sh runs: a line for each run of a program.

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
    for seed in 1 2 3 4 5; do
      echo regularise --seed $seed --from bank
      echo regularise --seed $seed --from none
    done
    for seed in 1 2 3; do
      for n in 16 64 256 1024 4096; do
        echo retrieve --seed $seed --negatives $n
      done
      echo mining --seed $seed --labels given
      echo mining --seed $seed --labels mined
      echo mining --seed $seed --labels right
      echo agreement --seed $seed --labels few
      echo agreement --seed $seed --labels inferred
    done
  }
  maker_jobs() {
    local seed
    for seed in 1 2; do
      echo regularise --seed $seed --from bank --refresh maker
      echo mining --seed $seed --by maker
    done
  }
  time_jobs() {
    echo steps
    echo retrieve_steps
  }
fi
