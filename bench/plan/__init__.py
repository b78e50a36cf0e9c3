"""Whether speculation pays, predicted from measured terms and checked against measurements that were not used.

calibration (a machine's step times, data/) -> `curve` (step time over tokens and context) -> `model` (a cell: speed-up,
break-even, verdict) <- `acceptance`. `validate` checks it; `roofline`, `layout` and `ngram` use the same terms.
"""
