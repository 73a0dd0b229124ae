// A pool in front of simulated replicas, in simulated time, deterministic by seed.
//
// A replica works on one prompt at a time, in order of arrival, at its prefill rate, or on all at once in a fixed time.
// Then it decodes at a fixed rate, whatever else runs. Or it fails everything after a fixed time.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "balancer/pool.hpp"
#include "requests.hpp"

namespace weir::balancer {

struct ReplicaModel {
  double prefill_rate = 0;  ///< It is in tokens per second; 0 means that every prompt takes `fixed`.
  double fixed = 0;         ///< It is in seconds.
  bool fails = false;       ///< It fails every request after `fixed`.
  double decode_rate = 50;  ///< It is in tokens per second of each stream.
  double step = 0;          ///< Each prompt takes so many seconds beside the work on its tokens.
  double hit_rate = 0;      ///< So many prompts have all but 16 tokens in the replica's prefix cache.
};

class Simulation {
 public:
  Simulation(std::shared_ptr<Pool> pool, std::vector<ReplicaModel> models, std::uint64_t seed)
      : pool_(std::move(pool)), models_(std::move(models)), random_(seed), free_at_(models_.size()) {
    offered.resize(models_.size());
    offered_tokens.resize(models_.size());
  }

  /// Runs Poisson arrivals. A failed request tries each other replica once. A run goes on from where the last one
  /// ended.
  template <class Prompt>
  void run(double arrivals_per_second, double seconds, Prompt prompt) {
    std::exponential_distribution<double> gap(arrivals_per_second);
    const double end = now_ + seconds;
    for (double arrival = now_ + gap(random_); arrival < end; arrival += gap(random_)) {
      work_until(arrival);
      Request request;
      request.prompt = prompt(random_);
      start(std::move(request));
    }
    work_until(end);
  }

  double now() const { return now_; }
  void finish_everything() { work_until(now_ + 1e6); }

  std::vector<std::uint64_t> offered;  ///< Counts the requests sent to each replica, first attempts and retries.
  std::vector<Tokens> offered_tokens;

 private:
  struct Request {
    Tokens prompt = 0;
    Tokens output = 50, cached = 0;
    Lease lease;
    std::vector<Serial> tried;
  };
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    enum Kind { first_token, end, failure } kind = first_token;
    std::shared_ptr<Request> request;
    bool operator<(const Event& other) const {  // The top of the queue is the earliest.
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void start(Request started) {
    auto request = std::make_shared<Request>(std::move(started));
    request->lease = admitted(place(*pool_, prompt_of(request->prompt, request->output), at(now_), request->tried));
    const ReplicaIndex r = request->lease.replica();
    ++offered[r];
    offered_tokens[r] += request->prompt;
    const ReplicaModel& model = models_[r];
    double done = now_ + model.fixed;
    if (model.prefill_rate > 0) {
      if (std::bernoulli_distribution(model.hit_rate)(random_))
        request->cached = request->prompt - std::min<Tokens>(request->prompt, 16);
      const double work = static_cast<double>(request->prompt - request->cached) / model.prefill_rate + model.step;
      done = std::max(now_, free_at_[r]) + work;
      free_at_[r] = done;
    }
    plan(done, model.fails ? Event::failure : Event::first_token, std::move(request));
  }

  void plan(double time, Event::Kind kind, std::shared_ptr<Request> request) {
    events_.push({time, order_++, kind, std::move(request)});
  }

  void work_until(double time) {
    while (!events_.empty() && events_.top().time <= time) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      happens(event);
    }
    now_ = time;
  }

  void happens(const Event& event) {
    Request& request = *event.request;
    const ReplicaIndex r = request.lease.replica();
    if (event.kind == Event::first_token) {
      request.lease.first_token(at(now_));
      const double decode = static_cast<double>(request.output - 1) / models_[r].decode_rate;
      plan(now_ + decode, Event::end, event.request);
    } else if (event.kind == Event::end) {
      request.lease.tokens(static_cast<std::uint32_t>(request.output));
      LeaseEnd end(EndCause::answered);
      end.prompt_tokens = request.prompt;
      end.cached_tokens = request.cached;
      end.output_tokens = request.output;
      request.lease.end(end, at(now_));
    } else {
      request.tried.push_back(request.lease.key().serial);
      request.lease.end(LeaseEnd(EndCause::replica_failed), at(now_));
      if (request.tried.size() < models_.size()) start(std::move(request));
    }
  }

  std::shared_ptr<Pool> pool_;
  std::vector<ReplicaModel> models_;
  std::mt19937_64 random_;
  std::vector<double> free_at_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

}  // namespace weir::balancer
