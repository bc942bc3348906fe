/** The line between the canvas and the panel beside it: dragged, or moved with the arrows; its place is remembered. */

import { useState } from "react";

import { NAME, panelWidth, USUAL } from "./stored-width";

const [LEAST, MOST] = [320, 900];

export function usePanelWidth(): [number, (width: number) => void] {
  const [width, setWidth] = useState(panelWidth);
  return [
    width,
    (wanted) => {
      const fitting = Math.round(Math.max(LEAST, Math.min(wanted, MOST, window.innerWidth * 0.7)));
      localStorage.setItem(NAME, String(fitting));
      setWidth(fitting);
    },
  ];
}

export function Splitter({ width, onWidth }: { width: number; onWidth: (width: number) => void }) {
  return (
    <div
      className="splitter" role="separator" aria-orientation="vertical" aria-label="width of the panel" tabIndex={0}
      aria-valuenow={width} aria-valuemin={LEAST} aria-valuemax={MOST}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => event.buttons === 1 && onWidth(window.innerWidth - event.clientX)}
      onDoubleClick={() => onWidth(USUAL)}
      onKeyDown={(event) => {
        const wanted = { ArrowLeft: width + 24, ArrowRight: width - 24, Home: MOST, End: LEAST }[event.key];
        if (wanted === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        onWidth(wanted);
      }}
    />
  );
}
