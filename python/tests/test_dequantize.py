"""Weights that the library decodes, against what docs/formats.md says of the bytes, read with NumPy."""
import json
import pathlib
import shutil
import tempfile
import unittest

import numpy as np

import nibble

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "models/demo"
LAYER = "model.layers.0.mlp.down_proj"
TYPES = {"F16": np.float16, "U8": np.uint8, "F32": np.float32}
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def parts(folder, layer):
    """The stored parts of a layer."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    found = {}
    for name, shard in index.items():
        if not name.startswith(layer + "."):
            continue
        data = (folder / shard).read_bytes()
        length = int.from_bytes(data[:8], "little")
        entry = json.loads(data[8:8 + length])[name]
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name.removeprefix(layer + ".")] = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(
            entry["shape"])
    return found


def numbers(packed, bits, count):
    """`count` numbers of `bits` in each row of bytes, LSB first."""
    all_bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :count * bits]
    weights = 1 << np.arange(bits)
    return (all_bits.reshape(len(packed), count, bits) * weights).sum(-1)


def grouped(values, group, k):
    return np.repeat(values, group, axis=1)[:, :k]


class DequantizeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        for recipe in ("rtn-w4g48", "rtn-w3g128-sym", "nf4g64"):
            nibble.quantize(DEMO, recipe, cls.folder / recipe, threads=1)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def weights(self, recipe):
        found = {}
        nibble.dequantize(self.folder / recipe, lambda name, values: found.__setitem__(name, values.copy()))
        return found

    def test_asymmetric_integers(self):
        weights = self.weights("rtn-w4g48")
        self.assertEqual(len(weights), 6 * 7)
        stored = parts(self.folder / "rtn-w4g48", LAYER)
        n, k = weights[LAYER].shape
        self.assertEqual((n, k), (256, 768))
        scales = grouped(stored["scales"].astype(np.float32), 48, k)
        zeros = grouped(numbers(stored["zeros"], 4, k // 48), 48, k)
        expected = scales * (numbers(stored["codes"], 4, k) - zeros).astype(np.float32)
        np.testing.assert_array_equal(weights[LAYER], expected)

    def test_symmetric_integers(self):
        weights = self.weights("rtn-w3g128-sym")[LAYER]
        stored = parts(self.folder / "rtn-w3g128-sym", LAYER)
        k = weights.shape[1]
        expected = grouped(stored["scales"].astype(np.float32), 128, k) * (numbers(stored["codes"], 3, k) - 4)
        np.testing.assert_array_equal(weights, expected.astype(np.float32))

    def test_books(self):
        weights = self.weights("nf4g64")[LAYER]
        stored = parts(self.folder / "nf4g64", LAYER)
        k = weights.shape[1]
        values = np.array(NF4, np.float32)[numbers(stored["codes"], 4, k)]
        np.testing.assert_array_equal(weights, grouped(stored["scales"].astype(np.float32), 64, k) * values)

    def test_what_is_plain_is_left_out(self):
        found = []
        nibble.dequantize(DEMO, lambda name, values: found.append(name))
        self.assertEqual(found, [])

    def test_failures_are_raised(self):
        with self.assertRaises(nibble.FileError):
            nibble.dequantize(self.folder / "none", lambda name, values: None)
        seen = []

        def stop(name, values):
            seen.append(name)
            self.assertFalse(values.flags.writeable)
            raise KeyError(name)

        with self.assertRaises(KeyError):
            nibble.dequantize(self.folder / "nf4g64", stop)
        self.assertEqual(len(seen), 1)

    def test_folders_turn_away_a_transformers_without_the_quantizer(self):
        config = json.loads((self.folder / "nf4g64/config.json").read_text())
        self.assertIn("import nibble.transformers", config["transformers_weights"])
        self.assertFalse(config["transformers_weights"].endswith(".safetensors"))
        self.assertEqual(config["quantization_config"]["quant_method"], "nibble")


if __name__ == "__main__":
    unittest.main()
