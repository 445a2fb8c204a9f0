# ruff: noqa
def product_of_wrong_shapes():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    v = qd.Vector([1.0, 2.0, 3.0])
    z[0] = (m @ v)[0]

def product_with_a_number():
    v = qd.Vector([1.0, 2.0])
    z[0] = v @ 2.0

def inner_product_of_wrong_shapes():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.dot(qd.Vector([1.0, 2.0, 3.0]))

def cross_product_of_four():
    v = qd.Vector([1.0, 2.0, 3.0, 4.0])
    z[0] = v.cross(v)[0]

def transposed_vector():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.transpose()[0]

def trace_of_a_rectangle():
    m = qd.Matrix([[1.0, 2.0]])
    z[0] = m.trace()

def inverse_of_a_rectangle():
    m = qd.Matrix([[1.0, 2.0]])
    z[0] = m.inverse()[0, 0]

def singular_values_of_four_rows():
    u, s, v = qd.svd(qd.Matrix.identity(float, 4))

def eigenvalues_of_a_vector():
    w, q = qd.sym_eig(qd.Vector([1.0, 2.0]))

def length_of_a_number():
    z[0] = qd.math.length(2.0)

def distance_of_wrong_shapes():
    z[0] = qd.math.distance(qd.Vector([1.0, 2.0]), qd.Vector([1.0, 2.0, 3.0]))

def complex_number_of_three():
    w = qd.math.cmul(qd.Vector([1.0, 2.0]), qd.Vector([1.0, 2.0, 3.0]))

def unit_vector_outside():
    v = qd.Vector.unit(3, 3)

def size_at_run_time():
    m = qd.Matrix.identity(float, n[None])

def normalized_matrix():
    m = qd.Matrix([[1.0, 2.0]]).normalized()

def method_that_does_not_exist():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.lenght()

def slice_at_run_time():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    z[0] = m[0 : n[None], 0][0]

def row_outside():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    z[0] = m[2, :][0]

def number_filled_with_a_vector():
    v = qd.Vector([1.0, 2.0])
    v.fill(v)
