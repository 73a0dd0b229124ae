#include "proxy/control/rollout_writer.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace weir::proxy::control {
namespace {

using balancer::rollout::Standing;

/// The standing of a rollout; that of one that was never started if it is not there.
Standing standing_of(const KeptRollouts& kept, const std::string& name) {
  const auto found = kept.rollouts.find(name);
  return found == kept.rollouts.end() ? Standing() : found->second.standing;
}

/// True if a step of the rollout may end by itself.
bool goes_on(const Standing& standing) {
  return standing.state == balancer::rollout::State::shadow || standing.state == balancer::rollout::State::live;
}

/// True if a candidate has more with the first standing: requests, or a step that may end.
bool gives_more(const Standing& one, const Standing& other) {
  return one.share > other.share || (goes_on(one) && !goes_on(other));
}

}  // namespace

RolloutWriter::RolloutWriter(boost::asio::io_context& context, KeptRollouts kept, Tell tell)
    : context_(context), tell_(std::make_shared<Tell>(std::move(tell))), kept_(std::move(kept)) {}

RolloutWriter::~RolloutWriter() { thread_.join(); }

std::uint64_t RolloutWriter::write(std::string directory, KeptRollouts wanted) {
  const std::lock_guard lock(mutex_);
  next_ = Wanted{++asked_, std::move(directory), std::move(wanted)};
  if (!working_) {
    boost::asio::post(thread_, [this] { work(); });
    working_ = true;  // work() waits for the mutex.
  }
  return asked_;
}

void RolloutWriter::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !working_; });
}

void RolloutWriter::work() {
  std::unique_lock lock(mutex_);
  while (next_) {
    const auto wanted = std::move(*std::exchange(next_, std::nullopt));
    lock.unlock();
    Written written{wanted.number, {}};
    try {
      written.error = keep(wanted).value_or("");
    } catch (const std::bad_alloc&) {
      written.error = "no memory";  // Too short to take any.
    }
    tell(written);
    lock.lock();
  }
  working_ = false;
  idle_.notify_all();
}

void RolloutWriter::tell(const Written& written) noexcept {
  for (;;) {
    try {
      boost::asio::post(context_, [this, tell = std::weak_ptr(tell_), written] {
        const auto told = tell.lock();
        if (!told) return;
        told_ = written.number;
        (*told)(written);
      });
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

std::optional<std::string> RolloutWriter::keep(const Wanted& wanted) {
  // Without a directory the last rollout has left the settings.
  auto error = wanted.directory.empty() ? std::nullopt : write_rollouts(wanted.directory, wanted.kept);
  if (!error) {
    kept_ = wanted.kept;
    return std::nullopt;
  }
  // A restart must not give a candidate back what was taken from it, nor go on where it was stopped.
  const bool has_more = std::ranges::any_of(kept_.rollouts, [&](const auto& one) {
    return gives_more(one.second.standing, standing_of(wanted.kept, one.first));
  });
  if (!has_more) return error;
  auto less = wanted.kept;
  for (auto& [name, one] : less.rollouts) {
    const auto before = standing_of(kept_, name);
    if (one.standing.share >= before.share && gives_more(one.standing, before)) one.standing = before;
  }
  switch (replace_rollouts(wanted.directory, less)) {
    case Replaced::by_new:
      kept_ = std::move(less);
      return error;
    case Replaced::by_nothing:
      kept_.rollouts.clear();
      return *error + "; a restart would find all rollouts idle";
    case Replaced::not_at_all:
      break;
  }
  return *error + "; a restart would find the rollouts as they were before";
}

}  // namespace weir::proxy::control
