// Draws a chart from the table beneath it: the same numbers, and nothing else.
"use strict";

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4], [1, 4], [6, 2, 1, 2]];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function number(text) {
  return text === undefined || text === null || text === "" ? null : Number(text);
}

// A bucket has a value from its start until its end: two points, so that a step is one and a gap
// is one. The end lies a millisecond before the next start.
function read(table) {
  const rows = [...table.tBodies[0].rows].sort((a, b) => a.dataset.start - b.dataset.start);
  const overall = table.querySelector("th[data-overall]") !== null;
  const times = [];
  const columns = rows.length ? [...rows[0].querySelectorAll("td[data-plot]")].map((_, at, all) => ({
    value: [], low: [], high: [], least: [], shown: [], overall: overall && at === all.length - 1,
  })) : [];
  for (const row of rows) {
    const start = Number(row.dataset.start);
    if (times.length && start > times[times.length - 1] + 0.01) {  // nothing is known in between
      times.push(times[times.length - 1] + 0.001);
      for (const column of columns) {
        for (const name of ["value", "low", "high", "least"]) column[name].push(null);
        column.shown.push("");
      }
    }
    times.push(start, Number(row.dataset.end) - 0.001);
    [...row.querySelectorAll("td[data-plot]")].forEach((cell, at) => {
      const data = cell.querySelector("data");
      const value = number(data && data.value);
      const column = columns[at];
      for (let twice = 0; twice < 2; twice++) {
        column.value.push(value);
        column.low.push(number(cell.dataset.low));
        column.high.push(number(cell.dataset.high));
        column.least.push(twice ? null : number(cell.dataset.least));
        column.shown.push(data ? data.textContent : cell.textContent.trim());
      }
    });
  }
  return { times, columns };
}

function markers() {
  return [...document.querySelectorAll("[data-marker]")].map((item) => ({
    at: Date.parse(item.querySelector("time").dateTime) / 1000,
    kind: item.dataset.marker,
  }));
}

function drawMarkers(u) {
  const { ctx, bbox } = u;
  for (const marker of markers()) {
    const x = u.valToPos(marker.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.save();
    ctx.beginPath();
    ctx.strokeStyle = colour(marker.kind === "fire" ? "--bad" : marker.kind === "clear" ? "--series-2" : "--faint");
    ctx.setLineDash(marker.kind === "fire" ? [] : marker.kind === "clear" ? [6, 4] : [2, 4]);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}

function placed(item) {
  return colour(item.dataset.place === undefined ? "--faint" : `--series-${item.dataset.place % 8}`);
}

// What nobody confirmed any more is hatched where it was last known.
function drawStale(u) {
  const { ctx, bbox } = u;
  const half = 6 * devicePixelRatio;
  for (const item of document.querySelectorAll("[data-stale]")) {
    const y = u.valToPos(Number(item.dataset.value), "y", true);
    const from = Math.max(u.valToPos(Number(item.dataset.start), "x", true), bbox.left);
    const to = Math.min(u.valToPos(Number(item.dataset.end), "x", true), bbox.left + bbox.width);
    if (!(from < to) || y + half < bbox.top || y - half > bbox.top + bbox.height) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, y - half, to - from, 2 * half);
    ctx.clip();
    ctx.beginPath();
    ctx.setLineDash([]);
    ctx.strokeStyle = placed(item);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (let x = from - 2 * half; x < to; x += half) {
      ctx.moveTo(x, y + half);
      ctx.lineTo(x + 2 * half, y - half);
    }
    ctx.stroke();
    ctx.restore();
  }
}

// What a gate holds back is a cross in a hollow square, at the edge where it lies beyond it.
function drawHeld(u) {
  const { ctx, bbox } = u;
  const half = 4 * devicePixelRatio;
  for (const item of document.querySelectorAll("[data-held]")) {
    const x = u.valToPos(Number(item.dataset.at), "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const value = u.valToPos(Number(item.dataset.value), "y", true);
    const y = Math.min(Math.max(value, bbox.top + half), bbox.top + bbox.height - half);
    ctx.save();
    ctx.beginPath();
    ctx.setLineDash([]);
    ctx.strokeStyle = placed(item);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.rect(x - half, y - half, 2 * half, 2 * half);
    ctx.moveTo(x - half, y - half);
    ctx.lineTo(x + half, y + half);
    ctx.moveTo(x - half, y + half);
    ctx.lineTo(x + half, y - half);
    ctx.stroke();
    ctx.restore();
  }
}

// The band between two values that nobody shall act on, and the line at 1.
function drawDeadBand(u, low, high) {
  const { ctx, bbox } = u;
  const clip = (y) => Math.min(Math.max(y, bbox.top), bbox.top + bbox.height);
  const top = clip(u.valToPos(high, "y", true));
  const bottom = clip(u.valToPos(low, "y", true));
  const one = u.valToPos(1, "y", true);
  ctx.save();
  ctx.fillStyle = colour("--faint");
  ctx.globalAlpha = 0.25;
  ctx.fillRect(bbox.left, top, bbox.width, bottom - top);
  ctx.globalAlpha = 1;
  if (one >= bbox.top && one <= bbox.top + bbox.height) {
    ctx.strokeStyle = colour("--ink");
    ctx.beginPath();
    ctx.moveTo(bbox.left, one);
    ctx.lineTo(bbox.left + bbox.width, one);
    ctx.stroke();
  }
  ctx.restore();
}

// Dates as they are written in the table: the year, or the day, where it changes.
function dates(zone) {
  const day = uPlot.fmtDate("{YYYY}-{MM}-{DD}");
  const short = uPlot.fmtDate("{MM}-{DD}");
  const year = uPlot.fmtDate("{YYYY}");
  const minute = uPlot.fmtDate("{HH}:{mm}");
  const second = uPlot.fmtDate("{HH}:{mm}:{ss}");
  return (u, splits, axis, space, step) => {
    const dayOf = (at) => day(uPlot.tzDate(new Date(at * 1000), zone));
    // The day of the first one has no room where the next one begins another day.
    let before = step < 86400 && splits.length > 1 && dayOf(splits[0]) !== dayOf(splits[1]) ? dayOf(splits[0]) : null;
    return splits.map((at) => {
      const moment = uPlot.tzDate(new Date(at * 1000), zone);
      const [main, beside] = step >= 86400 ? [short(moment), year(moment)] : [(step < 60 ? second : minute)(moment), day(moment)];
      const text = beside === before ? main : `${main}\n${beside}`;
      before = beside;
      return text;
    });
  };
}

function draw(figure) {
  const { times, columns } = read(document.getElementById(figure.dataset.table));
  const plot = figure.querySelector(".plot");
  const readings = [...figure.querySelectorAll(".reading")];
  const data = [times];
  const series = [{}];
  const bands = [];
  columns.forEach((column, at) => {
    const stroke = () => colour(column.overall ? "--ink" : `--series-${at % 8}`);
    const dash = column.overall ? [1, 5] : DASHES[at % 8];
    const hidden = { stroke: "transparent", points: { show: false } };
    data.push(column.value);
    series.push({ stroke, width: 2, dash, spanGaps: false, points: { show: false } });
    if (column.least.some((value) => value !== null)) {
      data.push(column.least);
      series.push({ stroke, paths: () => null, points: { show: true, size: 7, fill: () => colour("--paper"), stroke } });
    }
    if (!column.overall && column.low.some((value, i) => value !== column.high[i])) {
      data.push(column.high, column.low);
      series.push({ ...hidden }, { ...hidden });
      const n = series.length;
      bands.push({ series: [n - 2, n - 1], fill: () => `${stroke()}33` });
    }
  });
  const { unit, scale, deadLow, deadHigh } = figure.dataset;
  const zone = figure.dataset.zone.toUpperCase() === "UTC" ? "Etc/UTC" : figure.dataset.zone;
  const axis = {
    stroke: () => colour("--ink"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { stroke: () => colour("--line") },
    font: "13px system-ui, sans-serif",
  };
  const size = () => ({ width: plot.clientWidth, height: Math.min(420, Math.max(260, innerHeight * 0.45)) });
  figure.hidden = false;
  const u = new uPlot({
    ...size(),
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), zone),
    legend: { show: false },
    scales: { y: scale === "log" ? { distr: 3 } : {} },
    axes: [{ ...axis, values: dates(zone) }, { ...axis, size: 70, label: unit, labelFont: axis.font }],
    series,
    bands,
    hooks: {
      drawAxes: [(it) => {
        if (deadLow) drawDeadBand(it, Number(deadLow), Number(deadHigh));
      }],
      draw: [drawMarkers, drawStale, drawHeld],
      setCursor: [(it) => {
        readings.forEach((reading, at) => {
          reading.textContent = it.cursor.idx === null || !columns[at] ? "" : columns[at].shown[it.cursor.idx];
        });
      }],
    },
  }, data, plot);
  figure.chart = u;
  figure.columns = columns;
  new ResizeObserver(() => u.setSize(size())).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
}

for (const figure of document.querySelectorAll("figure[data-table]")) draw(figure);
