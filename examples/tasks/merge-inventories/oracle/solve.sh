#!/bin/sh
set -eu
export LC_ALL=C
sed 's/^ *//; s/ *;/;/' <<'STOCK' | tr 'A-Z' 'a-z' | sort -t ';' -k 1,1 | {
Lamp;4
chair ;12
Oak table;1
rug;0
oak table;2
LAMP;3
 mirror;5
chair;1
STOCK
    last='' sum=0
    while IFS=';' read -r item pieces || [ -n "$item" ]; do
        if [ "$item" != "$last" ]; then
            if [ "$sum" -gt 0 ]; then printf '%s\t%d\n' "$last" "$sum"; fi
            last=$item sum=0
        fi
        sum=$((sum + pieces))
    done
    if [ "$sum" -gt 0 ]; then printf '%s\t%d\n' "$last" "$sum"; fi
} > stock.tsv
