// The live view: it takes the figures of the present once a second, keeps what /api/live and its kin answer from, and
// tells findings, first hits of limits and certificates that end. Everything is on the control thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/record/request_record.hpp"
#include "metrics/series/exposition.hpp"
#include "proxy/fleet/fleet.hpp"
#include "proxy/live/document.hpp"
#include "proxy/live/figures.hpp"
#include "proxy/live/findings.hpp"

namespace weir::proxy::live {

class Live {
 public:
  static constexpr std::chrono::seconds every{1};
  static constexpr std::size_t most_streams = 16;
  static constexpr std::size_t latest_events = 50;
  /// A limit's hit is told if there was none for so long before; a certificate's end so often.
  static constexpr std::chrono::minutes limit_told_every{10};
  static constexpr std::chrono::hours certificate_told_every{24};

  /// `around` tells what the rooms above know; it is called once a second. The arguments outlive the object. `now` and
  /// `time` are weir's start.
  Live(fleet::Fleet& fleet, const metrics::series::Exposition& exposition, std::size_t threads,
       std::function<Surroundings()> around, Moment now, Wall time);

  /// Counts a finished request, of a client or a shadow.
  void finished(const metrics::record::RequestRecord& record, Moment now);
  /// Does what is due. To be called often; `instance` is weir's name in the request log.
  void tick(const std::string& instance, Moment now, Wall time);

  /// Returns the document of the last second. Null before the first tick. It is made once a second at most.
  std::shared_ptr<const Document> document();
  /// Returns the same with the states and books of now, for who asks what has come of a change.
  std::shared_ptr<const Document> document_of_now(Moment now);
  /// Rises by 1 with each second, by more where seconds were missed.
  std::uint64_t serial() const { return now_.serial; }
  const Now& now() const { return now_; }
  const Figures& figures() const { return figures_; }
  std::vector<Finding> findings() const { return findings_.standing(); }
  Wall started() const { return started_; }

  /// A place among the streams; it is given back when this ends.
  class StreamPlace {
   public:
    explicit StreamPlace(const Live& live) : open_(live.streams_) { ++*open_; }
    ~StreamPlace() { --*open_; }
    StreamPlace(const StreamPlace&) = delete;
    StreamPlace& operator=(const StreamPlace&) = delete;

   private:
    const std::shared_ptr<std::size_t> open_;  ///< At weir's end streams go with the context, after all else.
  };
  /// No more streams may be opened.
  bool is_full() const { return *streams_ >= most_streams; }

 private:
  Document made_of(Now& now);
  void tell_findings(const std::vector<Findings::Change>& changes);
  void tell_limits();
  void tell_certificate();

  fleet::Fleet& fleet_;
  const metrics::series::Exposition& exposition_;
  const std::function<Surroundings()> around_;
  const Wall started_;
  Figures figures_;
  Requests requests_;
  Findings findings_;
  Now now_;
  std::shared_ptr<const Document> document_;  ///< Of now_; null until somebody asks.
  std::string instance_;
  Moment next_{};
  const std::shared_ptr<std::size_t> streams_ = std::make_shared<std::size_t>(0);
  struct LimitHit {
    std::uint64_t hits = 0;
    std::optional<Moment> last{};
  };
  std::array<LimitHit, metrics::series::limit_names.size()> limits_;
  std::optional<Moment> certificate_told_;
};

}  // namespace weir::proxy::live
