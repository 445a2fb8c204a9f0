# ruff: noqa
def shapes_of_operands():
    v = qd.Vector([1.0, 2.0])
    w = qd.Vector([1.0, 2.0, 3.0])
    z[0] = (v + w)[0]

def shape_of_a_variable():
    v = qd.Vector([1.0, 2.0])
    v = qd.Vector([1.0, 2.0, 3.0])

def vector_into_number():
    z[0] = qd.Vector([1.0, 2.0])

def vector_as_condition():
    v = qd.Vector([1, 2])
    if v:
        z[0] = 1

def arms_of_different_shape():
    v = qd.Vector([1.0, 2.0])
    w = v if n[None] > 0 else qd.Vector([1.0, 2.0, 3.0])

def vector_of_a_field():
    v = qd.Vector(x)

def ragged():
    m = qd.Matrix([[1.0, 2.0], [3.0]])

def too_few_numbers():
    v = vec3(1.0, 2.0)

def index_too_large():
    v = qd.Vector([1.0, 2.0])
    z[0] = v[2]

def index_negative():
    v = qd.Vector([1.0, 2.0])
    z[0] = v[-1]

def one_index_of_two():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    z[0] = m[0]

def real_index():
    v = qd.Vector([1.0, 2.0])
    z[0] = v[x[0]]

def unknown_letter():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.z

def unknown_method():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.get_shap()

def element_of_a_value():
    v = qd.Vector([1.0, 2.0])
    (v + 1.0)[0] = 2.0

def shared_vector_assigned():
    t = qd.Vector([0.0, 0.0])
    for i in range(4):
        t[0] = x[i]

def shared_vector_read():
    t = qd.Vector([0.0, 0.0])
    for i in range(4):
        t += x[i]
        z[i] = t[0]
