# ruff: noqa
def over_number():
    for i in 10:
        z[i] = 1

def over_element():
    for i in n[None]:
        z[i] = 1

def over_tuple():
    for i in (1, 2):
        z[i] = 1

def over_static_number():
    for i in qd.static(3):
        z[i] = 1

def one_variable_for_two_axes():
    for i in g:
        z[i] = 1

def two_variables_for_one_axis():
    for i, j in range(3):
        z[i] = 1

def over_scalar_field():
    for i in n:
        z[i] = 1

def element_as_variable():
    for a[0] in range(3):
        z[0] = 1

def zero_step():
    for i in range(0, 10, 0):
        z[i] = 1

def four_arguments():
    for i in range(0, 1, 2, 3):
        z[i] = 1

def static_unpacking():
    for i, j in qd.static(range(3)):
        z[i] = j

def break_parallel():
    for i in x:
        if x[i] > 1:
            break

def break_static():
    for k in qd.static(range(3)):
        if x[k] > 1:
            break

def shared_assigned():
    s = 0.0
    for i in x:
        s = x[i]
    y[None] = s

def shared_divided():
    s = 1.0
    for i in x:
        s /= x[i]
    y[None] = s

def shared_read():
    s = 0.0
    for i in x:
        s += x[i]
        z[i] = s

def shared_mixed():
    s = 1
    for i in x:
        s = s * 3
        s = s + i

def shared_mixed_atomics():
    s = 1.0
    for i in x:
        qd.atomic_min(s, x[i])
        s = max(s, 0.0)

def shared_integer_times_a_real():
    s = 10
    for i in x:
        s = s * 0.5

def shared_narrow_minimum():
    s = qd.cast(5, qd.i8)
    for i in x:
        s = min(s, 3)
        s = min(s, 200)

def shared_unsigned_maximum():
    s = qd.cast(7, qd.u32)
    for i in range(3):
        s = max(s, 1)
        qd.atomic_max(s, x[i])

def shared_bool_and():
    s = True
    for i in range(3):
        s &= z[i] > 0
        s &= i

def shared_sum_of_reals():
    s = 0
    for i in x:
        s += x[i]
        s -= 0.5
        s += 2

def shared_old_value():
    s = 0
    for i in x:
        k = qd.atomic_add(s, 1)

def atomic_in_condition():
    for i in range(3):
        k = 0
        while qd.atomic_add(k, 1) < 5:
            z[i] = k

# --- warnings

@kernel(scalar(qd.i64), scalar(qd.f32))
def wide_bounds(m, r):
    for i in range(m):
        z[i] = 1
    for i in range(r):
        z[i] = 1

@kernel(scalar(qd.u64), scalar(qd.u64))
def unsigned_bounds(m, n):
    for i in range(n):
        z[i] = 1
    for i in range(m, n):
        z[i] = 1

def static_loop_over_field():
    for i in qd.static(x):
        z[i] = 1

def checkpointed_parallel_loop():
    qd.loop_config(checkpoint=True)
    for i in range(3):
        z[i] = 1

def checkpointed_static_loop():
    for i in range(3):
        qd.loop_config(checkpoint=True)
        for j in qd.static(range(2)):
            z[i] = j

def a_field_at_compile_time():
    for i in qd.static(n):
        z[i] = 1

def assigned_and_read_in_a_parallel_loop():
    k = 0
    for i in z:
        if z[i] > z[k]:
            k = i

def ndrange_of_reals():
    for i, j in qd.ndrange((0, 2.5), 3):
        z[i] = 1

def ndrange_in_no_order():
    for i, j in qd.ndrange(2, 3, axes=(1, 1)):
        z[i] = 1

def ndrange_with_a_step():
    for i, j in qd.ndrange((0, 10, 2), 2):
        z[i] = 1

def ndrange_axes_is_a_number():
    for i, j in qd.ndrange(2, 3, axes=5):
        z[i] = 1

def ndrange_axes_are_no_numbers():
    for i, j in qd.ndrange(2, 3, axes=(0, 0.5)):
        z[i] = 1

def ndrange_axes_of_the_run():
    for i, j in qd.ndrange(2, 3, axes=(a[0], 0)):
        z[i] = 1

def barrier_outside_of_parallel_loops():
    qd.simt.block.sync()

def shared_memory_of_no_shape():
    for i in range(64):
        s = qd.simt.block.SharedArray((4, 0), qd.i32)

def shared_memory_of_a_size_of_the_run():
    for i in range(64):
        s = qd.simt.block.SharedArray(n[None], qd.i32)

def sum_of_another_block():
    qd.loop_config(block_dim=64)
    for i in range(64):
        z[i] = qd.simt.block.reduce_add(i, 32, qd.i32)

def blocks_too_large():
    qd.loop_config(block_dim=4096)
    for i in range(64):
        z[i] = 1

def section_in_a_loop():
    for i in range(2):
        with qd.section():
            z[0] = 1.0

def a_loop_in_a_loop_that_activates_what_it_runs_over():
    for t in range(3):
        for i, j in sparse:
            sparse[i, j + 1] = 1.0

def activation_in_a_dense_node():
    qd.activate(cells.parent(), [])

def a_list_of_a_field():
    qd.append(z, 0, 1.0)

def an_index_too_few():
    qd.deactivate(cells, 1)

@qd.func
def square(v):
    return v * v

def shared_passed_to_a_func():
    s = 0.0
    for i in x:
        s += x[i]
        z[i] = square(s)

def shared_member_of_a_copied_struct():
    s = Ball(mass=1.0)
    for i in x:
        s.mass += x[i]
        t = s

def shared_under_stop_grad():
    s = 0.0
    for i in x:
        s += qd.stop_grad(s)

def static_loop_of_a_billion():
    for i in qd.static(range(10**9)):
        z[0] += 1.0

def static_ndrange_of_a_billion():
    for i, j in qd.static(qd.ndrange(100000, 10000)):
        z[0] += 1.0

def comprehension_of_a_billion():
    a = [0 for i in range(10**9)]

def list_of_a_billion():
    a = [1.0] * 10**9

def matrix_of_a_billion():
    a = qd.Matrix.zero(qd.f32, 10**5, 10**4)

def identity_of_a_billion():
    a = qd.Matrix.identity(qd.f32, 10**5)

@kernel(unrolling_limit=8)
def static_loop_beyond_the_limit():
    for i in qd.static(range(9)):
        z[i] = 1.0

def a_loop_beside_parallel_sections():
    with qd.stream_parallel():
        for i in range(3):
            z[i] = 1
    for i in range(3):
        z[i] = 2

def the_address_of_cells():
    n[None] = qd.get_addr(cells, [1])

def the_address_of_a_number():
    n[None] = qd.get_addr(n[None], [])

def length_of_a_field():
    z[0] = len(x)

def sum_of_a_field():
    z[0] = sum(x)

def field_in_enumerate():
    for i, v in enumerate(x):
        z[i] = v

def fields_in_zip():
    for a, b in zip(x, z):
        a = b
