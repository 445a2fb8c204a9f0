# ruff: noqa
def too_many():
    x[0, 1] = 1

def too_few():
    g[0] = 1

def scalar_with_index():
    n[0] = 1

def field_without_index():
    g[None] = 1

def real_index():
    v = 1.5
    z[0] = g[0, v]

def negative_index():
    z[0] = x[-1]

def slice_():
    x[0:2] = 1

def slice_without_a_step():
    z[0] = g.shape[::0][0]

def slice_at_run_time():
    for i in range(2):
        z[i] = g.shape[i:][0]

def indexed_number():
    v = 1
    z[0] = v[0]

def indexed_number_target():
    v = 1
    v[0] = 2

def shape_out_of_range():
    z[0] = g.shape[2]

def shape_at_run_time():
    for i in range(2):
        z[i] = g.shape[i]

def no_gradient():
    z[0] = z.grad[0]

@kernel(array(qd.f32, 1))
def no_array_gradient(m):
    z[0] = m.grad[0]

TABLE = [1.0, 2.0, 4.0]

def list_of_python_at_run_time():
    for i in range(3):
        z[i] = TABLE[i]
