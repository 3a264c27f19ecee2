// Sorts tables of class "sortable": with the buttons in their header, or with the menu above them on narrow screens.
(function () {
  "use strict";

  const OPPOSITE = { ascending: "descending", descending: "ascending" };

  /** The value that a cell is sorted by; null if it has none. */
  function keyOf(row, column) {
    const value = row.cells[column].dataset.sort;
    return value === undefined || value === "" ? null : value;
  }

  function isNumber(value) {
    return value.trim() !== "" && !Number.isNaN(Number(value));
  }

  /** The values that the rows are sorted by: numbers if all of them are numbers, else text. */
  function keysOf(rows, column) {
    const keys = rows.map((row) => keyOf(row, column));
    const numeric = keys.every((key) => key === null || isNumber(key));
    return keys.map((key) => (key !== null && numeric ? Number(key) : key));
  }

  function compare(one, other) {
    // A difference would be NaN for two infinities.
    if (typeof one === "number") return Number(one > other) - Number(one < other);
    return one.localeCompare(other, undefined, { numeric: true });
  }

  /** Rows in their new order; those without a value last, equal ones in their initial order. */
  function inOrder(rows, column, direction) {
    const sign = direction === "descending" ? -1 : 1;
    const keys = keysOf(rows, column);
    const entries = rows.map((row, place) => ({ row, key: keys[place], place: Number(row.dataset.place) }));
    entries.sort((one, other) => {
      const missing = Number(one.key === null) - Number(other.key === null);
      const order = one.key === null || other.key === null ? missing : sign * compare(one.key, other.key);
      return order || one.place - other.place;
    });
    return entries.map((entry) => entry.row);
  }

  /** Sorts a table by a column, "ascending" or "descending", and sets aria-sort. */
  function sortTable(table, column, direction) {
    const body = table.tBodies[0];
    body.append(...inOrder(Array.from(body.rows), column, direction));
    Array.from(table.tHead.rows[0].cells).forEach((header, place) => {
      if (place === column) header.setAttribute("aria-sort", direction);
      else header.removeAttribute("aria-sort");
    });
    showChoice(table, column);
  }

  function headerOf(table, column) {
    return table.tHead.rows[0].cells[column];
  }

  function firstDirection(table, column) {
    return headerOf(table, column).querySelector("button").dataset.first || "ascending";
  }

  /** Reverses the sorted column; another column starts with its first direction. */
  function sortNext(table, column) {
    const present = headerOf(table, column).getAttribute("aria-sort");
    sortTable(table, column, OPPOSITE[present] || firstDirection(table, column));
  }

  function choiceOf(table) {
    return Array.from(document.querySelectorAll(".sort-choice")).find((one) => one.dataset.table === table.id);
  }

  function showChoice(table, column) {
    const choice = choiceOf(table);
    if (choice) choice.querySelector(".sort-by").value = String(column);
  }

  function prepareChoice(table) {
    const choice = choiceOf(table);
    if (!choice) return;
    const select = choice.querySelector(".sort-by");
    const column = () => Number(select.value);
    select.addEventListener("change", () => sortTable(table, column(), firstDirection(table, column())));
    choice.querySelector(".sort-turn").addEventListener("click", () => sortNext(table, column()));
    choice.hidden = false;
  }

  function prepare(table) {
    Array.from(table.tBodies[0].rows).forEach((row, place) => {
      row.dataset.place = String(place);
    });
    Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
      const button = header.querySelector("button");
      if (button) button.addEventListener("click", () => sortNext(table, column));
    });
    prepareChoice(table);
  }

  function start() {
    document.querySelectorAll("table.sortable").forEach(prepare);
  }

  window.vaescope = window.vaescope || {};
  window.vaescope.sortTable = sortTable;
  // The script may come before the tables.
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
