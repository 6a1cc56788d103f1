#!/bin/bash
# A shell alone can grade, too. A link is refused: it could lead to the expected file itself.
verdict() {
    echo "$2"
    echo "$1" > /logs/verifier/reward.txt
    exit 0
}
[ -L stock.tsv ] && verdict 0 "FAIL: stock.tsv is a link"
[ -f stock.tsv ] || verdict 0 "FAIL: there is no file stock.tsv"
if difference=$(diff /verifier/expected.tsv stock.tsv | head -n 20) && [ -z "$difference" ]; then
    verdict 1 "PASS: stock.tsv is as it should be"
fi
verdict 0 "FAIL: lines that differ ('<' expected, '>' found):
$difference"
