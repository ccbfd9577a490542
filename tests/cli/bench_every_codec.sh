# The error of every operation of every codec is a number below 1, for every type of values, and the
# same number on every instruction set.
for isa in $(nf info --json | python3 -c 'import json; print(*json.loads(input())["isas"])'); do
  for dtype in fp32 bf16 fp16; do
    nf bench codec --isa "$isa" --dtype $dtype --count 3000 --repeat 1 --json
  done
done | python3 -c '
import collections, json, sys

errors, codecs = collections.defaultdict(set), set()
for row in map(json.loads, sys.stdin):
    codecs.add(row["codec"])
    if row["op"] not in ("statistics", "widths"):
        errors[row["codec"], row["op"], row["dtype"]].add(row["vnmse"])
print("every operation:", len(errors) == len(codecs) * 4 * 3)
for case, found in errors.items():
    if len(found) > 1 or not 0 <= min(found) < 1:
        print(*case, *found)
'
