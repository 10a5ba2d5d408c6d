"""The assignment with the highest sum of scores, by the Hungarian method. Knows no columns and no fields."""

from collections.abc import Mapping, Sequence

_NO_PAIR = -9.0  # score of a place for a goal that it cannot have


def best_pairs(scores: Mapping[tuple[int, int], float]) -> dict[int, int]:
    """The assignment of places to goals with the highest sum (the Hungarian method), each place and each goal at most once."""
    places = sorted({place for place, _ in scores})
    goals = sorted({goal for _, goal in scores})
    blanks = [0.0] * len(places)  # a goal for each place that means no field
    cost = [[-scores.get((place, goal), _NO_PAIR) for goal in goals] + blanks for place in places]
    of_goal = _hungarian_method(cost, len(goals) + len(places))
    return {places[of_goal[goal]]: goals[goal] for goal in range(len(goals)) if of_goal[goal] >= 0}


def _hungarian_method(cost: Sequence[Sequence[float]], width: int) -> list[int]:
    """For each of `width` goals the row that takes it (-1: none), so that the sum of costs is least. Each row takes one goal, by the shortest
    path that augments the assignment of the rows before it; potentials keep reduced costs at or above 0.
    """
    of_goal, potential, price = [-1] * (width + 1), [0.0] * len(cost), [0.0] * (width + 1)
    for row in range(len(cost)):
        of_goal[width], at = row, width
        least, way, done = [float("inf")] * width, [width] * width, [False] * (width + 1)
        while of_goal[at] >= 0:
            done[at], own = True, of_goal[at]
            for goal in range(width):
                reduced = cost[own][goal] - potential[own] - price[goal]
                if not done[goal] and reduced < least[goal]:
                    least[goal], way[goal] = reduced, at
            onward = min((goal for goal in range(width) if not done[goal]), key=least.__getitem__)
            step = least[onward]
            for goal in range(width + 1):
                if done[goal]:
                    potential[of_goal[goal]] += step
                    price[goal] -= step
                elif goal < width:
                    least[goal] -= step
            at = onward
        while at != width:
            of_goal[at], at = of_goal[way[at]], way[at]
    return of_goal
