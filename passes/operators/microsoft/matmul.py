"""Products with transposed operands, a factor, an addend and an activation; distances and inverses."""

from __future__ import annotations

from opshift.passes.analysis.inferring.stand_ins import transposition
from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.fused import ATTRIBUTES, activate
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

_READ_AS_IT_LIES = (
    "transA=1 and B is a vector, where onnxruntime reads A as it lies in memory: neither A nor its transpose "
    "(3x3: 0.8 instead of -2.1)"
)


@says("Replaced FusedMatMul or TransposeMatMul by Transpose, MatMul and Mul by alpha")
def product_of_transposed(node: Node) -> str:
    build, alpha = node.build, node.attributes.get("alpha", 1.0)
    if node.attributes.get("transA", 0) and node.rank(0) > 1 and node.rank(1) == 1:
        raise CannotConvert(node, _READ_AS_IT_LIES)
    product = build.MatMul(_transpose(node, 0, "A"), _transpose(node, 1, "B"))
    if alpha == 1.0:
        return str(product)
    node.close("the product is rounded before it is scaled")
    return str(build.Mul(product, build.constant(alpha, node.elem_type())))


def _transpose(node: Node, index: int, name: str) -> str:
    """The operand with its last two axes swapped, or its first axis moved in front of the last one, or both."""
    swapped, batch = (node.attributes.get(f"trans{part}{name}", 0) for part in ("", "Batch"))
    if not swapped and not batch:
        return node.input(index)
    perm = transposition(node.rank(index), bool(swapped), bool(batch))
    return str(node.build.Transpose(node.input(index), perm=perm)) if len(perm) > 1 else node.input(index)


@says("Replaced FusedMatMulActivation by Transpose, MatMul, Mul by alpha and the activation")
def activated_product(node: Node) -> str:
    return activate(node, product_of_transposed(node), ATTRIBUTES, _activation_attributes(node))


@says("Replaced FusedGemm by Gemm and the activation")
def activated_gemm(node: Node) -> str:
    node.close("the kernel rounds in another order")
    own = {name: node.attributes.get(name) for name in ("alpha", "beta", "transA", "transB")}
    operands = [node.input(0), node.input(1), node.input(2) or None]
    return activate(node, node.build.emit("Gemm", operands, own), ATTRIBUTES, _activation_attributes(node))


def _activation_attributes(node: Node) -> dict[str, float]:
    """The attributes of the activation that it has use for."""
    needed = ATTRIBUTES.get(node.attributes.get("activation", ""), ())
    return {name: node.attributes[f"activation_{name}"] for name in needed if f"activation_{name}" in node.attributes}


@says("Replaced CDist by |a|**2 - 2 * a * b + |b|**2, with Sqrt for metric euclidean")
def distances(node: Node) -> str:
    node.close("the kernel adds the squares in another order")
    build, elem_type, metric = node.build, node.elem_type(), node.attributes.get("metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise CannotConvert(node, f"metric={metric!r}", supported="sqeuclidean or euclidean")
    a, b = node.input(0), node.input(1)
    products = build.Mul(build.MatMul(a, build.Transpose(b, perm=[1, 0])), build.constant(-2.0, elem_type))
    columns = build.Transpose(build.ReduceSumSquare(b, [1]), perm=[1, 0])
    total = build.Add(build.Add(products, build.ReduceSumSquare(a, [1])), columns)
    squares = build.Max(total, build.constant(0.0, elem_type))
    return str(build.Sqrt(squares) if metric == "euclidean" else squares)


@says("Replaced Inverse by the adjugate divided by the determinant")
def adjugate_over_determinant(node: Node) -> str:
    node.close("the kernel uses elimination")
    build, shape = node.build, node.scope.shape(node.input(0))
    size = shape[-1] if shape else None
    if size not in (1, 2, 3):
        raise CannotConvert(
            node, f"Inverse gets matrices of {size or 'an unknown number of'} rows", supported="1 to 3 rows"
        )
    x = node.input(0)
    if size == 1:
        return str(build.Reciprocal(x))
    rows = build.emit("Split", [x], {"axis": -2, "num_outputs": size}, outputs=size)
    cells = [build.emit("Split", [row], {"axis": -1, "num_outputs": size}, outputs=size) for row in rows]

    def minor(i: int, j: int) -> str:
        """The cofactor of one cell."""
        if size == 2:
            cell = cells[1 - i][1 - j]
            return str(cell if i == j else build.Neg(cell))
        (a, b), (c, d) = ([cells[(i + k) % 3][(j + m) % 3] for m in (1, 2)] for k in (1, 2))
        return str(build.Sub(build.Mul(a, d), build.Mul(b, c)))

    cofactors = [[minor(i, j) for j in range(size)] for i in range(size)]
    terms = [build.Mul(cell, cofactor) for cell, cofactor in zip(cells[0], cofactors[0], strict=True)]
    determinant = terms[0]
    for term in terms[1:]:
        determinant = build.Add(determinant, term)
    adjugate = build.Concat(
        *(build.Concat(*(cofactors[j][i] for j in range(size)), axis=-1) for i in range(size)), axis=-2
    )
    return str(build.Div(adjugate, determinant))


defined(["FusedMatMul", "TransposeMatMul"], product_of_transposed, opset=13, domain=MICROSOFT)
defined("FusedMatMulActivation", activated_product, opset=22, domain=MICROSOFT)
defined("FusedGemm", activated_gemm, opset=22, domain=MICROSOFT)
defined("CDist", distances, opset=18, domain=MICROSOFT)
defined("Inverse", adjugate_over_determinant, opset=18, domain=MICROSOFT)
refused(
    "SparseToDenseMatMul",
    'A is a "2-dimensional sparse matrix A. Either COO or CSR format", which no operator of ONNX reads',
    domain=MICROSOFT,
)
