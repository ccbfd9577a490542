# Every codec over every topology leaves the same bits everywhere, and sends and errs as it should.
nf bench all_reduce -b 20000 -e 20000 --ranks 4 --group 2 --repeat 1 --json \
  --topology ring,tree,direct,halving_doubling,endpoint,hierarchical |
  python3 -c '
import json, sys

rows = [json.loads(line) for line in sys.stdin]
codecs, topologies = {row["codec"] for row in rows}, {row["topology"] for row in rows}
print("every case:", len(topologies) == 6 and len(rows) == len(codecs) * 6)
for row in rows:
    if row["wrong"] != 0 or not 0 <= row["vnmse"] < 1 or row["wire_bytes"] <= 0:
        print(row)
'
