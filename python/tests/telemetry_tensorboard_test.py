"""The scalars and texts of a run for TensorBoard."""

import pytest
from few_records import RUN

from neuron_fabric.telemetry.tensorboard import TensorBoard


class Writer:
    """Has the interface of a SummaryWriter."""

    def __init__(self):
        self.scalars, self.texts, self.is_closed = [], [], False

    def add_scalar(self, tag, value, step, time):
        self.scalars.append((tag, value, step, time))

    def add_text(self, tag, text, step, time=None):
        self.texts.append((tag, text, step))

    def flush(self):
        pass

    def close(self):
        self.is_closed = True


def test_scalars_and_texts_for_tensorboard():
    writer = Writer()
    reader = TensorBoard(writer)
    for record in RUN:
        reader.write(record)
    reader.close()
    assert {tag: value for tag, value, number, _ in writer.scalars if number == 0} == {
        "nf/step_seconds": 0.25, "nf/exposed_seconds": 0.125,
        "nf/predicted_exposed_seconds": 0.0625, "nf/bytes_ratio": 2624 / 16448, "nf/loss": 1.5,
        "nf/rank_loss": 1.25,
        "nf/region/body/norm": 0.5, "nf/region/body/error": 0.002, "nf/region/body/bytes": 2560,
        'nf/region/a "b"\\c\nd/norm': 2.0, 'nf/region/a "b"\\c\nd/bytes': 64}
    assert {time for _, _, number, time in writer.scalars if number == 1} == {1e9 + 1}
    assert "nf/loss" not in [tag for tag, _, number, _ in writer.scalars if number == 1]
    assert ("nf/decisions/body", "step 2: **body** from admitted to **non_finite**, route fp32",
            2) in writer.texts
    assert not writer.is_closed  # its owner closes it


def test_tensorboard_reads_back_what_was_written(tmp_path):
    pytest.importorskip("torch.utils.tensorboard", exc_type=ImportError)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = TensorBoard(tmp_path)
    for record in RUN:
        reader.write(record)
    reader.flush()
    reader.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in events.Scalars("nf/loss")] == [1.5]
    assert [event.step for event in events.Scalars("nf/region/body/bytes")] == [0, 1]
    assert "nf/decisions/body/text_summary" in events.Tags()["tensors"]
