"""InstanceNormalization of data of any rank."""

import onnx.numpy_helper

from tests.support import check


def test_two_unknown_sizes_are_read_at_run_time_below_6():
    io = {"inputs": "float[N,3,D,E,F] x, float[3] s, float[3] b", "outputs": "float[N,3,D,E,F] y"}
    made = check(
        "y = InstanceNormalization(x, s, b)", 6,
        "t1 = Size(x)\nt2 = Cast<to=BOOL>(t1)\ny = If<else_branch={ t3 = Identity(x); t3 }, then_branch={ t3 = Reshape(x, const/moved);"
        " t4 = InstanceNormalization(t3, s, b); t5 = Shape(x); t6 = Reshape(t4, t5); t6 }>(t2)", 5,
        run=False, **io,  # no engine runs Reshape at opset 5 with one of these operators
    )  # fmt: skip
    assert onnx.numpy_helper.to_array(made.graph.initializer[0]).tolist() == [0, 0, -1, 1]
