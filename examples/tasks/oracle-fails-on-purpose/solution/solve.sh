#!/bin/bash
# Wrong on purpose: stops one too early.
sum=0
for ((n = 1; n < 100; n++)); do sum=$((sum + n)); done
echo "$sum" > sum.txt
