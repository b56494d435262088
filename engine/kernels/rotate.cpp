#include "kernels/rotate.hpp"

#include "kernels/kernel_table.hpp"

namespace muster::kernels {
namespace {

constexpr std::int64_t rows_at_once = 8;

void turn(ThreadTeam& team, const RotateJob& job) {
  team.split(job.rotation.rows, rows_at_once,
             [&](std::int64_t begin, std::int64_t end) { team.kernels().rotate(job, begin, end); });
}

}  // namespace

void rotate(ThreadTeam& team, const Rotation& rotation) { turn(team, {rotation, 1.0F}); }
void rotate_back(ThreadTeam& team, const Rotation& rotation) { turn(team, {rotation, -1.0F}); }

}  // namespace muster::kernels
