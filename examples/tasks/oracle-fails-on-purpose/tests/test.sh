#!/bin/bash
found=nothing
if [ -f sum.txt ] && [ ! -L sum.txt ]; then read -r found < sum.txt; fi
if [ "$found" = 5050 ]; then
    echo "PASS: 5050"
    echo 1 > /logs/verifier/reward.txt
else
    echo "FAIL: found ${found:0:40}, the sum is 5050"
    echo 0 > /logs/verifier/reward.txt
fi
