"""Robot arms in space, each with its own number of joints: where is the hand, and how does every part move it?

Joint ``j`` turns all that hangs on it about its own axis, then the link goes on along the turned z axis:

    R_{j+1} = R_j Rot(axis_j, angle_j),    hand_{j+1} = hand_j + R_{j+1} (0, 0, length_j),    R_0 = 1,  hand_0 = 0,

    L = sum_i |hand_{count[i]} - goal_i|**2,

with Rot by Rodrigues' formula for a unit axis. The matrix ``R`` and the vector ``hand`` are loop-carried in
``for j in range(count[i])``. The derivatives of the products read every entry of ``R``, so the stacks store these
entries.

Shapes: ``joints`` (arms, most joints) of Joint, ``count`` (arms,) i32, ``goal`` (arms,) of 3-vectors,
``loss`` (); default_fp.
"""

import numpy as np

import quadrants_lab as qd


@qd.func
def rotation(axis, angle):
    """The matrix that turns by ``angle`` about the unit vector ``axis``."""
    c, s = qd.cos(angle), qd.sin(angle)
    cross = qd.Matrix([[0.0, -axis.z, axis.y], [axis.z, 0.0, -axis.x], [-axis.y, axis.x, 0.0]])
    return c * qd.Matrix.identity(float, 3) + s * cross + (1.0 - c) * axis.outer_product(axis)


@qd.func
def hand(joints: qd.template(), i, count):
    """The position of the hand of arm ``i``."""
    turned = qd.Matrix.identity(float, 3)
    at = qd.Vector([0.0, 0.0, 0.0])
    for j in range(count):
        joint = joints[i, j]
        turned = turned @ rotation(joint.axis, joint.angle)
        at += joint.length * (turned @ qd.Vector([0.0, 0.0, 1.0]))
    return at


@qd.kernel
def locate(joints: qd.template(), count: qd.template(), at: qd.template()):
    """at[i] = the hand of arm i."""
    for i in count:
        at[i] = hand(joints, i, count[i])


@qd.kernel
def reach(joints: qd.template(), count: qd.template(), goal: qd.template(), loss: qd.template()):
    """loss[None] += L."""
    for i in count:
        loss[None] += (hand(joints, i, count[i]) - goal[i]).norm_sqr()


class Arms:
    """Arms with arrays for the same number of joints, of which arm i uses ``count[i]``."""

    def __init__(self, axis: np.ndarray, length: np.ndarray, count: np.ndarray, goal: np.ndarray) -> None:
        Joint = qd.types.struct(axis=qd.types.vector(3, float), angle=float, length=float)
        self.joints = Joint.field(shape=length.shape, needs_grad=True)
        self.count = qd.field(qd.i32, shape=len(count))
        self.goal = qd.Vector.field(3, float, shape=len(goal))
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.joints.axis.from_numpy(axis)
        self.joints.length.from_numpy(length)
        self.count.from_numpy(count.astype(np.int32))
        self.goal.from_numpy(goal)

    def hands(self, angle: np.ndarray) -> np.ndarray:
        """The positions of the hands (arms, 3) for the angles (arms, most joints)."""
        self.joints.angle.from_numpy(angle)
        at = qd.Vector.field(3, float, shape=self.goal.shape)
        locate(self.joints, self.count, at)
        return at.to_numpy()

    def gradient(self, angle: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        """L for the angles (arms, most joints), and its derivatives with respect to the members of the joints."""
        self.joints.angle.from_numpy(angle)
        with qd.ad.Tape(self.loss):
            reach(self.joints, self.count, self.goal, self.loss)
        members = {"angle": self.joints.angle, "length": self.joints.length, "axis": self.joints.axis}
        return float(self.loss[None]), {name: x.grad.to_numpy() for name, x in members.items()}


def main(arms: int = 5, most: int = 7, rounds: int = 60, rate: float = 0.03) -> list[float]:
    """Bends arms of 3 to ``most`` joints until their hands are at their goals; returns the loss before each round."""
    qd.init(arch=qd.cpu)
    rng = np.random.default_rng(17)
    axis = rng.normal(size=(arms, most, 3)).astype(np.float32)
    axis /= np.linalg.norm(axis, axis=-1, keepdims=True)
    count = rng.integers(3, most + 1, arms)
    length, nowhere = np.full((arms, most), 0.6, np.float32), np.zeros((arms, 3), np.float32)
    system, losses = Arms(axis, length, count, nowhere), []
    system.goal.from_numpy(system.hands(0.6 * rng.normal(size=(arms, most)).astype(np.float32)))
    angle = np.zeros((arms, most), np.float32)
    for _ in range(rounds):
        loss, slope = system.gradient(angle)
        losses.append(loss)
        angle -= np.float32(rate) * slope["angle"]
    return losses


if __name__ == "__main__":
    losses = main()
    print(f"squared distances of the hands {losses[0]:.3g} -> {losses[-1]:.3g}")
