# The demo: count two real corpora with a real tokenizer, offline. Called by `make demo`.
set -eu
: "${VOCABFREQ:=vocabfreq}" "${PYTHON:=python3}" "${OUT:=demo}"
mkdir -p "$OUT"
PYTHONIOENCODING=utf-8 "$PYTHON" data/stdlib_corpus.py > "$OUT/stdlib.jsonl"

echo "\$ vocabfreq build --tokenizer data/smollm2 --source code=$OUT/stdlib.jsonl --source chat=data/chat.jsonl -o $OUT/vocab_freq.safetensors"
"$VOCABFREQ" build --tokenizer data/smollm2 \
  --source "code=$OUT/stdlib.jsonl" --source chat=data/chat.jsonl \
  -o "$OUT/vocab_freq.safetensors"

echo
echo "\$ vocabfreq show $OUT/vocab_freq.safetensors --tokenizer data/smollm2 --top 10 --plot $OUT/coverage.png"
"$VOCABFREQ" show "$OUT/vocab_freq.safetensors" --tokenizer data/smollm2 --top 10 \
  --plot "$OUT/coverage.png"

echo "Code outweighs chat here, so the top ids of both cover chat worse than the top ids of chat alone:"
echo "see the gap between the solid and the dotted line of chat in $OUT/coverage.png. Count what you serve."
