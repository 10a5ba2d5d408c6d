"""Settings that are each right and together senseless are refused when a mapping is loaded (M1)."""

import pytest
from sheets import findings

MAPPING = """\
mapping: x
version: 1
target: order.update
source: {files: ["x_*.csv"], locale: de_DE, dates: ["%d.%m.%Y %H:%M"], timezone: Europe/Berlin}
columns:
  no:   {label: No, required: true, key: true, min_length: 3, max_length: 9}
  day:  {label: Day, type: datetime}
  kg:   {label: Kg, type: quantity, unit: kg, min: 5, max: 10}
  cube: {label: Cube, type: quantity, from_unit: l, unit: m3}
  deep: {label: Deep, type: quantity, unit: cm}
constants: {units: {weight: KG}}
payload:
  order_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  createdon: {col: day, format: "%Y-%m-%d %H:%M:00"}
  total_weight: {col: kg}
  gross_weight_uom: {const: units.weight}
  total_volume: {col: cube}
  volume_uom: {value: CBM}
  packages:
    each: rows
    item:
      package_type: {value: Box}
      item_name: {value: x}
      length: {col: rows.deep}
      length_uom: {value: cm, when: 'deep != null'}
      weight: {expr: '(kg ?? 0) * 1000'}
      weight_uom: {value: G}
      width: {col: deep}
      width_uom: {value: furlongs of ours}
checks:
  - {id: heavy, rule: 'kg != 7', say: no}
  - {id: light, rule: 'kg != 7', say: no}
"""


def test_the_mapping_that_the_senseless_ones_are_made_from_is_good(tmp_path):
    assert findings(tmp_path, MAPPING) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("%Y-%m-%d %H:%M:00", "%Y-%m-%dT%H:%M:%SZ", "m.yaml:16:20: createdon: Z in %Y-%m-%dT%H:%M:%SZ is plain text, but times are those of Europe/Berlin; write %z instead of Z"),
        ("{col: kg}", "{col: kg, unless_blank: false}", "m.yaml:17:41: unless_blank: false has no effect: a blank value always leaves its field out (remove it, or set default)"),
        ("{col: kg}", "{col: kg, unless_blank: true, default: 1}", "m.yaml:17:41: unless_blank has no effect: default replaces a blank value (remove one of them)"),
        ("{label: Kg,", "{label: Kg, control_total: true,", 'm.yaml:8:21: unknown key "control_total" (remove it: the reports total packages, weights, volumes and goods values of all records)'),
        ("min: 5, max: 10", "min: 5, max: 4", "m.yaml:8:60: max: 4 is less than min: 5 (no value fits)"),
        ("max_length: 9", "max_length: 2", "m.yaml:6:75: max_length: 2 is less than min_length: 3 (no value fits)"),
        ("id: light", "id: heavy", 'm.yaml:34:10: "heavy" is already the id of another check'),
        ('"x_*.csv"', '"x_*.csv", " "', "m.yaml:4:29: a file name pattern is blank (such as orders_*.csv)"),
        ("x_*.csv", "../x.csv", 'm.yaml:4:18: "../x.csv" cannot match a file in the inbox (patterns are relative to the inbox, such as nordic/*.csv)'),
        ("%Y-%m-%d %H:%M:00", "%d.%m.%Y", "m.yaml:16:33: createdon would be 24.10.2026; it takes a value such as 2026-03-01 08:00:00 (remove format: a date is written in the form of the field)"),
        ("unit: kg,", "unit: t,", "m.yaml:17:17: total_weight is in t, but gross_weight_uom is KG (set unit: kg on the column kg to convert it)"),
        ("unit: m3", "unit: l", "m.yaml:19:17: total_volume is in l, but volume_uom is CBM (set unit: cbm on the column cube to convert it)"),
        ("length_uom: {value: cm", "length_uom: {value: IN", "m.yaml:26:15: length is in cm, but length_uom is IN (set unit: in on the column deep to convert it)"),
        ("weight_uom: {const: units.weight}", "weight_uom: {value: CBM}", "m.yaml:17:17: total_weight is in kg, but gross_weight_uom is CBM (they measure different things)"),
    ],
)  # fmt: skip
def test_senseless_settings_are_refused_at_their_line(tmp_path, old, new, said):
    assert MAPPING.count(old) == 1
    assert findings(tmp_path, MAPPING.replace(old, new)) == [said]
